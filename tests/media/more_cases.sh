# Further cases, of our own: variants of the kinds above in other containers, codecs and parameters.
# Read by make_cases.sh, whose functions and variables it uses.
QUICK=(-c:v libx264 -preset veryfast -crf 14 -g 30 -bf 2 -threads 1)
VP9=(-c:v libvpx-vp9 -crf 16 -b:v 0 -deadline good -cpu-used 5 -threads 1 -row-mt 0)
X265=(-c:v libx265 -preset veryfast -crf 12 -tag:v hvc1)
P265=log-level=none:pools=none:frame-threads=1:keyint=30
AV1=(-c:v libsvtav1 -preset 8 -crf 18)
OPUS=(-c:a libopus -b:a 96k)
SOME="select='lt(n,20)+between(n,20,39)*not(mod(n,3))+gte(n,46)'"
quick() { reset; VA=("${QUICK[@]}"); }
half() { m half 320 180 30 60; }
halfmp4() { [ -s "$W/half.mp4" ] || { quick; enc "$W/half.mp4" "$(half)" 30 60 "$V601"; }; echo "$W/half.mp4"; }
pa() { ffprobe -v error -select_streams a -show_entries "stream=$1" -of csv=p=0 "$CFILE"; }
w51() { [ -s "$W/51.wav" ] || wav "$W/51.wav" 4 48000 500 800 1100 1400 1700 2000; echo "$W/51.wav"; }
inter() { # FIRSTFIELD
  [ -s "$W/$1.nut" ] || PANEL="scale=540:538,setsar=1,tinterlace=interleave_$1" INFPS=50 compose "$W/$1.nut" 720 576 25 25; echo "$W/$1.nut"; }
cut_off() { head -c $(($(stat -c %s "$1")*7/10)) "$1" >"$CFILE"; }

# ---------- time ----------
if want X01 own vfr.mkv media process "" "variable rate in Matroska's milliseconds"; then
  quick; EXTRA=(-vsync vfr); enc "$CFILE" "$(half)" 30 60 "$SOME,$V601"; vfy "41" '^41' nframes; fi
if want X02 own vfr.webm media process "--aac-ok" "variable rate in VP9"; then
  reset; VA=("${VP9[@]}"); AA=("${OPUS[@]}"); EXTRA=(-vsync vfr); enc "$CFILE" "$(half)" 30 60 "$SOME,$V601"; vfy "41" '^41' nframes; fi
if want X03 own vfr.ts media process "" "variable rate in a transport stream"; then
  quick; EXTRA=(-vsync vfr); enc "$CFILE" "$(half)" 30 60 "$SOME,$V601"; vfy "41" '^41' nframes; fi
if want X04 own fps11988.mp4 media process "" "120000/1001 fps"; then
  quick; enc "$CFILE" "$(m n11988 320 180 120000/1001 150)" 120000/1001 150 "$V601"; vfy "rate" '^120000/1001' pv r_frame_rate; fi
if want X05 own timescale1000.mp4 media process "" "29.97 fps in a track that counts milliseconds"; then
  quick; EXTRA=(-video_track_timescale 1000); enc "$CFILE" "$(m n2997 320 180 30000/1001 60)" 30000/1001 60 "$V601"; vfy "tb" '1/1000' pv time_base; fi
if want X06 own starts_late.mkv media process "" "first picture at 1.234 s in Matroska"; then
  F -itsoffset 1.234 -i "$(halfmp4)" -i "$(halfmp4)" -map 0:v -map 1:a -c copy "${BX[@]}" "$CFILE"; vfy "late" '^1\.2' pv start_time; fi
if want X07 own near_wrap.ts media process "" "the clock wraps at 33 bits half way"; then
  F -i "$(halfmp4)" -c copy "${BX[@]}" -output_ts_offset 95442.7 -muxdelay 0 -f mpegts "$CFILE"; vfy "60" '^60' nframes; fi
if want X08 own cut.mov media process "" "edit list hides the start, HEVC"; then
  reset; VA=("${X265[@]}" -x265-params $P265:bframes=3); enc "$W/x10.mov" "$(half)" 30 60 "$V601"; F -ss 0.5 -i "$W/x10.mov" -c copy "${BX[@]}" "$CFILE"; fi
if want X09 own equal_pts.mkv media process "--pts-policy monotonic" "two pictures tell the same time"; then
  quick; AA=(); VA+=(-bf 0); enc "$W/x14.mkv" "$(half)" 30 60 "$V601"; F -i "$W/x14.mkv" -c copy -bsf:v "setts=ts='if(eq(N,20),PREV_OUTPTS,TS)'" "${BX[@]}" "$CFILE"; fi
if want X10 own outlier.mkv media process "--pts-policy monotonic" "one picture tells a time far ahead"; then
  quick; AA=(); VA+=(-bf 0); enc "$W/x15.mkv" "$(half)" 30 60 "$V601"; F -i "$W/x15.mkv" -c copy -bsf:v "setts=pts='if(eq(N,20),TS+50000,TS)':dts=TS" "${BX[@]}" "$CFILE"; fi
if want X11 own two.ts media process "" "two frames"; then
  quick; AA=(); enc "$CFILE" "$(half)" 30 2 "$V601"; fi
if want X12 own three.mov media process "" "three frames, B-frames"; then
  quick; AA=(); enc "$CFILE" "$(half)" 30 3 "$V601"; fi

# ---------- geometry ----------
if want X13 own rot180.mp4 media process "" "turned by 180 degrees"; then
  quick; enc "$W/r180.mp4" "$(half)" 30 60 "hflip,vflip,$V601"; F -i "$W/r180.mp4" -c copy "${BX[@]}" -metadata:s:v:0 rotate=180 "$CFILE"; vfy "matrix" 'rotation of (-|)180' bash -c 'ffprobe -hide_banner "$0" 2>&1' "$CFILE"; fi
if want X14 own rot270.mov media process "" "turned by 270 degrees, mov"; then
  quick; enc "$W/r270.mov" "$(half)" 30 60 "transpose=1,$V601"; F -i "$W/r270.mov" -c copy "${BX[@]}" -metadata:s:v:0 rotate=270 "$CFILE"; vfy "matrix" 'rotation of' bash -c 'ffprobe -hide_banner "$0" 2>&1' "$CFILE"; fi
if want X15 own odd_hevc444.mp4 media process "--pad-ok" "321x181 HEVC 4:4:4"; then
  reset; VA=("${X265[@]}" -x265-params $P265); enc "$CFILE" "$(m odd3 321 181 30 30)" 30 30 "${V601/yuv420p/yuv444p}"; fi
if want X16 own sar_tall.mkv media process "" "SAR 3:4"; then
  quick; enc "$CFILE" "$(half)" 30 30 "$V601,setsar=3/4"; vfy sar '^3:4' pv sample_aspect_ratio; fi
if want X17 own bff.mp4 media process "--psnr 28" "H.264, bottom field first"; then
  quick; VA+=(-flags +ilme+ildct -x264opts bff=1); enc "$CFILE" "$(inter bottom)" 25 25 "scale=out_color_matrix=bt601:out_range=tv:interl=1:$SW,format=yuv420p,setsar=16/11,setfield=bff"; vfy "field" '(bb|bt)' pv field_order; fi
if want X18 own prores_tff.mov media process "--psnr 28" "ProRes, top field first"; then
  reset; VA=(-c:v prores_ks -profile:v 2 -threads 1); EXTRA=(-flags:v +ildct+bitexact); AA=(-c:a pcm_s16le); enc "$CFILE" "$(inter top)" 25 25 "scale=out_color_matrix=bt601:out_range=tv:interl=1:$SW,format=yuv422p10le,setfield=tff"; vfy "field" '(tt|tb)' pv field_order; vfy "pictures" '1,1' ffprobe -v error -select_streams v -read_intervals %+#1 -show_entries frame=interlaced_frame,top_field_first -of csv=p=0 "$CFILE"; fi

# ---------- colour ----------
if want X19 own full_470bg.mp4 media process "--need color" "HEVC, BT.470BG, full range"; then
  reset; VA=("${X265[@]}" -x265-params $P265:range=full:colorprim=bt470bg:transfer=smpte170m:colormatrix=bt470bg -color_range pc -colorspace bt470bg -color_primaries bt470bg -color_trc smpte170m); enc "$CFILE" "$(half)" 30 30 "scale=out_color_matrix=bt601:out_range=pc:$SW,format=yuvj420p"; vfy "tags" 'pc,bt470bg' pv color_range,color_space; fi
if want X20 own av1_2020.mkv media process "--aac-ok" "AV1 10 bit, BT.2020 SDR, full range"; then
  reset; VA=("${AV1[@]}" -svtav1-params lp=1:color-range=1:matrix-coefficients=9:color-primaries=9:transfer-characteristics=14 -colorspace bt2020nc -color_primaries bt2020 -color_trc bt2020-10 -color_range pc); AA=("${OPUS[@]}"); enc "$CFILE" "$(half)" 30 30 "scale=out_color_matrix=bt2020:out_range=pc:$SW,format=yuv420p10le" 2>/dev/null; vfy "tags" 'bt2020nc' pv color_space; fi
if want X21 own hlg.mp4 media process "--need color --hdr" "HEVC Main10, HLG"; then
  reset; VA=("${X265[@]}" -x265-params $P265:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc:range=limited); EXTRA=(-colorspace bt2020nc -color_primaries bt2020 -color_trc arib-std-b67 -color_range tv); enc "$CFILE" "$(half)" 30 30 "$HD:t=arib-std-b67:m=2020_ncl:r=limited,format=yuv420p10le"; fi
if want X22 own pq_av1.mkv media process "--need color --hdr --aac-ok" "AV1, PQ"; then
  reset; VA=("${AV1[@]}" -svtav1-params lp=1:matrix-coefficients=9:color-primaries=9:transfer-characteristics=16 -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084 -color_range tv); AA=("${OPUS[@]}"); enc "$CFILE" "$(half)" 30 30 "$HD:t=smpte2084:m=2020_ncl:r=limited,format=yuv420p10le" 2>/dev/null; fi
if want X23 own h264_422.mkv media process "--need color" "H.264 4:2:2 10 bit"; then
  quick; EXTRA=("${T709[@]}"); enc "$CFILE" "$(half)" 30 30 "${V709/yuv420p/yuv422p10le}"; fi
if want X24 own gray.mkv media process "" "gray"; then
  reset; VA=(-c:v ffv1 -threads 1); enc "$CFILE" "$(half)" 30 30 "format=gray"; vfy gray 'gray' pv pix_fmt; fi
if want X25 own rgb264.mp4 media process "" "H.264 in RGB"; then
  quick; VA[1]=libx264rgb; enc "$CFILE" "$(half)" 30 30 "format=rgb24"; vfy rgb 'gbrp' pv pix_fmt; fi

# ---------- sound and tracks ----------
if want X26 own audio_gap.mkv media process "" "a second of sound is missing"; then
  F -i "$(basemp4)" -map 0:v -c copy "${BX[@]}" "$W/x12v.mkv"; F -i "$(basemp4)" -map 0:a -c copy -bsf:a "noise=drop='between(n,56,103)'" "${BX[@]}" "$W/x12a.mkv"; F -i "$W/x12v.mkv" -i "$W/x12a.mkv" -map 0 -map 1 -c copy "${BX[@]}" "$CFILE"; fi
if want X27 own ac3_51.ts media process "--aac-ok" "5.1 AC-3"; then
  quick; AW=$(w51); AA=(-c:a ac3 -b:a 448k); enc "$CFILE" "$(half)" 30 60 "$V601"; vfy "6" '^6' pa channels; fi
if want X28 own mono8k.mkv media process "" "8 kHz mono PCM"; then
  wav "$W/8k.wav" 4 8000 500; quick; AW=$W/8k.wav; AA=(-c:a pcm_s16le); enc "$CFILE" "$(half)" 30 60 "$V601"; fi
if want X29 own three_audio.mp4 media process "--need lang" "three tracks of sound, one late"; then
  F -i "$(halfmp4)" -itsoffset 0.3 -t 1.5 -i "$A2" -t 1 -i "$A" -map 0 -map 1 -map 2 -c copy -c:a:1 aac -c:a:2 ac3 "${BX[@]}" -metadata:s:a:0 language=eng -metadata:s:a:1 language=fra -metadata:s:a:2 language=jpn "$CFILE"; fi
if want X30 own two_pictures.mkv media process "" "a second, smaller picture track"; then
  F -i "$(halfmp4)" -f lavfi -i "testsrc=s=160x90:r=30:d=2" -map 0:v -map 1:v -map 0:a -c copy -c:v:1 libx264 "${BX[@]}" "$CFILE"; fi
if want X31 own cover_before.mp4 media process "" "cover picture before the picture track"; then
  F -f lavfi -i "testsrc=s=200x200:r=1:d=1" -frames:v 1 "$W/cv.png"; F -i "$W/cv.png" -i "$(halfmp4)" -map 0 -map 1 -c copy -disposition:v:0 attached_pic "${BX[@]}" "$CFILE"; fi
if want X32 own subs.mp4 media process "--need subs,lang" "mov_text, default and forced"; then
  printf '1\n00:00:00,200 --> 00:00:01,000\nfirst\n\n2\n00:00:01,200 --> 00:00:01,900\nsecond\n' >"$W/s2.srt"; F -i "$(halfmp4)" -i "$W/s2.srt" -i "$W/s2.srt" -map 0 -map 1 -map 2 -c copy -c:s mov_text "${BX[@]}" -metadata:s:s:0 language=eng -metadata:s:s:1 language=deu "$CFILE"; fi
if want X33 own timecode_df.mov media process "--need timecode" "drop-frame time code, H.264"; then
  quick; EXTRA=(-timecode "00:59:58;20"); enc "$CFILE" "$(m n2997 320 180 30000/1001 60)" 30000/1001 60 "$V601"; fi

# ---------- formats and damage ----------
if want X34 own wmv.wmv media process "--aac-ok --psnr 28 --color-tol 6" "WMV2 in ASF"; then
  reset; VA=(-c:v wmv2 -q:v 2); AA=(-c:a wmav2); enc "$CFILE" "$(half)" 30 60 "$V601"; fi
if want X35 own clear.gif media process "--color-tol 20 --psnr 20" "transparent GIF, odd delays"; then
  F -i "$(half)" -vf "$SOME,fps=20,scale=320:180,split[a][b];[a]palettegen=max_colors=120[p];[b][p]paletteuse=dither=none" "${BX[@]}" "$CFILE"; fi
if want X36 own cut.mkv media degrade "--lossy-ref --min-frames 30" "truncated Matroska"; then
  F -i "$(halfmp4)" -c copy "${BX[@]}" "$W/c.mkv"; cut_off "$W/c.mkv"; fi
if want X37 own cut_frag.mp4 media degrade "--lossy-ref --min-frames 20" "truncated fragmented mp4"; then
  F -i "$(halfmp4)" -c copy -movflags frag_keyframe+empty_moov -g 15 "${BX[@]}" "$W/c.mp4"; cut_off "$W/c.mp4"; fi
if want X38 own broken_start.ts media degrade "--start-cut --min-frames 25" "starts in the middle of a group"; then
  F -i "$(halfmp4)" -c copy "${BX[@]}" "$W/bs.ts"; tail -c +$((188*60+1)) "$W/bs.ts" >"$CFILE"; fi
if want X39 own size_up.ts media process "--reschange" "grows in mid-stream"; then
  reset; VA=("${QUICK[@]}" -bf 0); AA=(); enc "$W/u1.h264" "$(half)" 30 30 "$V601"; F -r 30 -i "$(half)" -vf "select='gte(n,30)',setpts=PTS-STARTPTS,scale=640:360:out_color_matrix=bt601:out_range=tv:$SW,format=yuv420p" -an "${VA[@]}" "${BX[@]}" "$W/u2.h264"; cat "$W/u1.h264" "$W/u2.h264" >"$W/u.h264"; F -r 30 -f h264 -i "$W/u.h264" -c copy "${BX[@]}" "$CFILE"; fi
if want X40 own clock_twice.ts media process "--pts-policy monotonic" "the clock restarts twice"; then
  for k in 0 1 2; do quick; F -r 30 -i "$(half)" -ss $(calc "$k*2/3") -t $(calc 2/3) -i "$A" -map 0:v -map 1:a -vf "trim=start_frame=$((k*20)):end_frame=$((k*20+20)),setpts=PTS-STARTPTS,$V601" "${QUICK[@]}" "${AAC[@]}" "${BX[@]}" -f mpegts "$W/k$k.ts"; done; cat "$W"/k[012].ts >"$CFILE"; fi
if want X41 own sound_only.mp4 media reject "" "no picture"; then
  F -i "$(halfmp4)" -map 0:a -c copy "${BX[@]}" "$CFILE"; fi

# ---------- faces ----------
if want X42 own face_many.mp4 media process "" "ten faces"; then
  F -i "$BASE" -vf "scale=352:288,crop=200:240:80:20,scale=180:216,split=5[a][b][c][d][e];[a][b][c][d][e]hstack=inputs=5,split[x][y];[x][y]vstack,format=gbrp" -frames:v 40 -c:v ffv1 -f nut "$W/fm.src.nut"; SRC=$W/fm.src.nut compose "$W/fm.nut" 1280 720 30 20; quick; AA=(); enc "$CFILE" "$W/fm.nut" 30 20 "$V709"; fi
if want X43 own face_enters.mp4 media process "" "face comes in from the right"; then
  PANEL="scale=480:336,split[p][q];[p]drawbox=t=fill:color=0x507050[bg];[bg][q]overlay=x='max(0,480-n*16)':y=0" compose "$W/fe.nut" 640 360 30 60; quick; AA=(); enc "$CFILE" "$W/fe.nut" 30 60 "$V601"; fi
if want X44 own face_422_full.mov media process "--need color" "H.264 4:2:2 full range 709"; then
  quick; AA=(); EXTRA=(-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range pc); enc "$CFILE" "$(m face 640 360 30 40)" 30 40 "scale=out_color_matrix=bt709:out_range=pc:$SW,format=yuvj422p"; fi

# ---------- cut off ----------
if want X45 own cut.webm media degrade "--lossy-ref --min-frames 30 --aac-ok" "truncated WebM"; then
  reset; VA=("${VP9[@]}"); AA=("${OPUS[@]}"); enc "$W/c.webm" "$(half)" 30 60 "$V601"; cut_off "$W/c.webm"; fi
if want X46 own cut.gif media degrade "--lossy-ref --min-frames 12 --color-tol 20 --psnr 20" "truncated GIF"; then
  F -i "$(half)" -vf "fps=15,scale=160:90,split[a][b];[a]palettegen=max_colors=64[p];[b][p]paletteuse=dither=none" "${BX[@]}" "$W/c.gif"; cut_off "$W/c.gif"; fi
if want X47 own cut.jpg image degrade "--psnr 28" "truncated photo"; then
  F -i "$(half)" -frames:v 1 -q:v 2 "${BX[@]}" "$W/c.jpg"; cut_off "$W/c.jpg"; fi

# ---------- slow, shaped, in fields ----------
if want X48 own slow.mkv media process "" "about a picture a second in Matroska, B-frames whose first packets have no dts"; then
  quick; VA+=(-bf 3); EXTRA=(-vsync vfr); AD=11.5 enc "$CFILE" "$(half)" 30 12 "setpts='(N+0.4*mod(N,3))/TB',$V601"
  vfy "no dts" 'N/A' ffprobe -v error -select_streams v -show_entries packet=dts -of csv=p=0 "$CFILE"; fi
if want X49 own sar.webm media process "--aac-ok" "VP9, SAR 64:45"; then
  reset; VA=("${VP9[@]}"); AA=("${OPUS[@]}"); enc "$CFILE" "$(half)" 30 30 "$V601,setsar=64/45"; vfy sar '^91:64,' pv sample_aspect_ratio,display_aspect_ratio; fi
if want X50 own tff.mp4 media process "--psnr 28" "H.264, top field first"; then
  quick; VA+=(-flags +ilme+ildct -x264opts tff=1); enc "$CFILE" "$(inter top)" 25 25 "scale=out_color_matrix=bt601:out_range=tv:interl=1:$SW,format=yuv420p,setsar=16/11,setfield=tff"; vfy "field" '(tt|tb)' pv field_order; fi
