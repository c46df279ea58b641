#!/usr/bin/env bash
# make_cases.sh OUTDIR BASE ASTRO [IDS]    makes all cases, or those of a comma-separated list
# make_cases.sh --list                     prints the manifest
#
# Makes the media of the case log deterministically (fixed seeds, single-threaded bitexact encodes) out of BASE,
# a clip of a talking head, and ASTRO, a portrait; checks with ffprobe that each file shows its quirk, and ends
# with status 1 if one does not. Needs ffmpeg >= 5.1. Run by tests/support/cases.py, which keeps the result.
# Writes OUTDIR/<file>, OUTDIR/manifest.tsv (id set file kind expect check_args title), OUTDIR/verify.txt.
#
# Every picture carries:  bottom 1/15: 16-cell strip = sync 1,0,1 + 12-bit frame counter (MSB first) + even parity;
# left 1/8: eight colour patches; right 1/8: flash square, white on the frames where a beep starts (every 0.5 s).
# Sound: every 0.5 s a chirp of its own pitch, different left/right, over quiet fixed-seed noise.
set -u -o pipefail
export LC_ALL=C.UTF-8
LIST= ONLY=
if [ "${1:-}" = --list ]; then
  LIST=1 MAN=/dev/stdout VER=/dev/null
else
  usage='usage: make_cases.sh OUTDIR BASE ASTRO [IDS] | --list'
  OUT=${1:?$usage} BASE=${2:?$usage} ASTRO=${3:?$usage} ONLY=${4:-}
  mkdir -p "$OUT"; OUT=$(cd "$OUT" && pwd)
  W=$(mktemp -d); trap 'rm -rf "$W"' EXIT
  MAN=$OUT/manifest.tsv VER=$OUT/verify.txt
  : >"$VER"
fi
FONT=$(ls /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf 2>/dev/null || true)

F() { ffmpeg -nostdin -hide_banner -v error -y "$@"; }
printf 'id\tset\tfile\tkind\texpect\tcheck_args\ttitle\n' >"$MAN"
CUR= CFILE=
want() { # ID SET FILE KIND EXPECT CHECKARGS TITLE
  [ -z "$ONLY" ] || case ",$ONLY," in *",$1,"*) ;; *) return 1;; esac
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$MAN"
  [ -z "$LIST" ] || return 1
  CUR=$1 CFILE=$OUT/$3
}
ok()  { echo "PASS $CUR $(basename "$CFILE"): $1" >>"$VER"; }
bad() { echo "FAIL $CUR $(basename "$CFILE"): $1 -- got: $2" >>"$VER"; }
vfy() { # WHAT REGEX CMD...   (regex against the flattened output)
  local what=$1 re=$2 got; shift 2; got=$("$@" 2>&1 | tr '\n' ' ')
  if [[ $got =~ $re ]]; then ok "$what"; else bad "$what" "${got:0:200}"; fi; }
pv() { ffprobe -v error -select_streams v:0 -show_entries "stream=$1" -of csv=p=0 "$CFILE"; }
nframes() { ffprobe -v error -select_streams v:0 -count_frames -show_entries stream=nb_read_frames -of csv=p=0 "$CFILE"; }
calc() { awk "BEGIN{printf \"%.6f\", $1}"; }

# ---------- masters ----------
BX=(-fflags +bitexact -flags:v +bitexact -flags:a +bitexact -map_metadata -1 -map_chapters -1)
SW=flags=bicubic+accurate_rnd+full_chroma_int
V601="scale=out_color_matrix=bt601:out_range=tv:$SW,format=yuv420p"
V709="scale=out_color_matrix=bt709:out_range=tv:$SW,format=yuv420p"
X264=(-c:v libx264 -preset medium -crf 16 -g 30 -bf 2 -threads 1)
AAC=(-c:a aac -b:a 128k)
T709=(-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv)

# compose OUT W H FPS N   env: NX counter expression, PANEL filter for the picture panel, SRC source, INFPS
compose() {
  local out=$1 w=$2 h=$3 fps=$4 n=$5 nx=${NX:-n} src=${SRC:-$BASE} infps=${INFPS:-$4}
  local sh=$((h/15)) pw=$((w*3/4)) x0 i c x x1 f b
  local ph=$((h-sh)); x0=$(( (w-pw)/2 ))
  f="[0:v]setsar=1,${PANEL:-null},scale=$pw:$ph:flags=bicubic,setsar=1,format=gbrp,pad=$w:$h:$x0:0:color=0x404040,settb=1/90000,setpts='round(N*90000/($fps))'"
  i=0; for c in c82828 28b43c 283cc8 d2c832 32bebe be3cb4 808080 ebebeb; do
    f+=",drawbox=x=0:y=$((ph*i/8)):w=$x0:h=$((ph*(i+1)/8-ph*i/8)):color=0x$c:t=fill"; i=$((i+1)); done
  x1=$((x0+pw))
  f+=",drawbox=x=$x1:y=0:w=$((w-x1)):h=$((ph/4)):color=0x101010:t=fill"
  f+=",drawbox=x=$x1:y=0:w=$((w-x1)):h=$((ph/4)):color=0xf0f0f0:t=fill:enable='lt(mod(n/($fps)+0.000001,0.5),1/($fps)-0.00001)'"
  [ -n "$FONT" ] && f+=",drawtext=fontfile=$FONT:text='%{n}':x=$x1+2:y=$((ph/2)):fontsize=$((h/18+4)):fontcolor=white"
  f+=",drawbox=x=0:y=$ph:w=$w:h=$sh:color=0x101010:t=fill"
  local par=0 bx en
  for i in $(seq 0 15); do
    bx=$((w*i/16)); en=
    case $i in 0|2) en=1;; 1) continue;; 15) en="mod($par,2)";;
      *) b=$((14-i)); en="mod(floor(($nx)/$((1<<b))),2)"; par="$par+$en";; esac
    f+=",drawbox=x=$bx:y=$ph:w=$((w*(i+1)/16-bx)):h=$sh:color=0xf0f0f0:t=fill:enable='gt($en,0.5)'"
  done
  F -stream_loop -1 -r "$infps" -i "$src" -filter_complex "$f,format=bgr0" -frames:v "$n" -an -c:v ffv1 -threads 1 -f nut "$out"
}
# lazily cached: m NAME W H FPS N
m() { [ -s "$W/$1.nut" ] || compose "$W/$1.nut" "$2" "$3" "$4" "$5"; echo "$W/$1.nut"; }
std() { m std 640 360 30 120; }

chirp() { # F0BASE -> expression
  echo "0.45*sin(2*PI*(($1+130*mod(floor(t*2),31))*mod(t,0.5)+2000*mod(t,0.5)*mod(t,0.5)))*lt(mod(t,0.5),0.08)"; }
wav() { # OUT DUR RATE F0...
  local o=$1 d=$2 r=$3 e= ; shift 3; for q in "$@"; do e+="${e:+|}$(chirp $q)"; done
  F -f lavfi -i "aevalsrc='$e':s=$r:d=$d" -f lavfi -i "anoisesrc=r=$r:d=$d:a=0.02:seed=7:c=pink" \
    -filter_complex "[1]aformat=channel_layouts=mono[n];[0][n]amerge=inputs=2,pan=$#c$(for k in $(seq 0 $(($#-1))); do printf '|c%d=c%d+c%d' $k $k $#; done)[o]" -map '[o]' -c:a pcm_s16le "${BX[@]}" "$o"; }
if [ -z "$LIST" ]; then
  A=$W/a.wav;  wav "$A" 14 48000 500 1200
  A2=$W/a2.wav; wav "$A2" 14 44100 2500
fi

# enc OUT MASTER FPS N VF  -- video args in VA, audio args in AA (empty = no audio), AD = audio seconds, EXTRA
enc() { local o=$1 ms=$2 fps=$3 n=$4 vf=$5
  local d=${AD:-$(calc "$n/($fps)")} a=()
  if [ ${#AA[@]} -gt 0 ]; then a=(-t "$d" -i "${AW:-$A}"); fi
  F -r "$fps" -i "$ms" "${a[@]}" -map 0:v $([ ${#AA[@]} -gt 0 ] && echo -map 1:a) -vf "trim=end_frame=$n,$vf" \
    "${VA[@]}" "${AA[@]}" "${BX[@]}" "${EXTRA[@]}" "$o"; }
reset() { VA=("${X264[@]}"); AA=("${AAC[@]}"); EXTRA=(); unset AD AW; }
reset
basemp4() { [ -s "$W/base.mp4" ] || { reset; enc "$W/base.mp4" "$(std)" 30 120 "$V601"; }; echo "$W/base.mp4"; }

# ================= timing =================
if want M00 public base_h264_aac.mp4 media process "" "plain reference clip (must pass bit-for-bit policy)"; then
  reset; enc "$CFILE" "$(std)" 30 120 "$V601"; vfy "120 frames" '^120' nframes; fi
if want M01 public vfr_phone.mp4 media process "" "variable frame rate, 30->10 fps and a 0.47 s gap"; then
  reset; EXTRA=(-vsync vfr); enc "$CFILE" "$(std)" 30 120 "select='lt(n,30)+between(n,30,59)*not(mod(n,3))+between(n,60,70)+gte(n,84)',$V601"
  vfy "avg != r_frame_rate" '^30/1,[0-9]+/[0-9]+ ?$' pv r_frame_rate,avg_frame_rate; vfy "87 frames" '^87' nframes; fi
if want M02 public dup_frames.mp4 media process "" "constant rate, every picture twice (identical neighbours)"; then
  reset; NX='floor(n/2)' compose "$W/dup.nut" 640 360 30 100; enc "$CFILE" "$W/dup.nut" 30 100 "$V601"; vfy "100 frames" '^100' nframes; fi
if want M03 public ntsc_23976.mp4 media process "" "24000/1001 fps, 6 s"; then
  reset; enc "$CFILE" "$(m n23 640 360 24000/1001 144)" 24000/1001 144 "$V601"; vfy "rate" '^24000/1001' pv r_frame_rate; fi
if want M05 public fps5994.mp4 media process "" "60000/1001 fps"; then
  reset; enc "$CFILE" "$(m n5994 640 360 60000/1001 150)" 60000/1001 150 "$V601"; vfy "rate" '^60000/1001' pv r_frame_rate; fi
if want M07 public video_starts_late.mp4 media process "" "first picture at 0.854 s, audio at 0"; then
  F -itsoffset 0.854 -i "$(basemp4)" -i "$(basemp4)" -map 0:v -map 1:a -c copy "${BX[@]}" "$CFILE"; vfy "video start" '^0\.85' pv start_time; fi
if want M09 public editlist_trim.mp4 media process "" "edit list hides 0.7 s of pre-roll frames (lossless cut)"; then
  F -ss 0.7 -i "$(basemp4)" -c copy "${BX[@]}" "$CFILE"
  vfy "discarded packets" 'D' bash -c 'ffprobe -v error -select_streams v -show_entries packet=flags -of csv=p=0 "$0" | grep -m1 D' "$CFILE"; fi
if want M11 public audio_longer.mp4 media process "--no-shortest" "audio runs 1.5 s past the last picture"; then
  reset; AD=5.5 enc "$CFILE" "$(std)" 30 120 "$V601"
  vfy "audio 5.5 s" '^5\.[45]' ffprobe -v error -select_streams a -show_entries stream=duration -of csv=p=0 "$CFILE"; fi
if want M12 public audio_shorter.mp4 media process "" "audio ends 1.3 s before the video"; then
  reset; AD=2.7 enc "$CFILE" "$(std)" 30 120 "$V601"; vfy "120 frames" '^120' nframes; fi
if want M13 public no_audio.mp4 media process "" "no audio stream"; then
  reset; AA=(); enc "$CFILE" "$(std)" 30 120 "$V601"; vfy "no audio" '^$' ffprobe -v error -select_streams a -show_entries stream=index -of csv=p=0 "$CFILE"; fi
if want M14 public two_audio.mkv media process "--need lang" "two audio tracks eng 48k stereo / deu 44.1k mono"; then
  reset; F -r 30 -i "$(std)" -t 4 -i "$A" -t 4 -i "$A2" -map 0:v -map 1:a -map 2:a -vf "$V601" "${VA[@]}" "${AAC[@]}" "${BX[@]}" -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu "$CFILE"
  vfy "2 tracks" 'eng.*(ger|deu)' ffprobe -v error -select_streams a -show_entries stream_tags=language -of csv=p=0 "$CFILE"; fi
if want M16 public mjpeg_pcm.avi media process "--color-tol 8" "AVI, MJPEG full range + PCM (PCM does not stream-copy into every MP4)"; then
  reset; VA=(-c:v mjpeg -q:v 6 -threads 1); AA=(-c:a pcm_s16le); enc "$CFILE" "$(m s60 640 360 30 60)" 30 60 "scale=out_color_matrix=bt601:out_range=pc:$SW,format=yuvj420p"
  vfy "pcm" 'pcm_s16le' ffprobe -v error -select_streams a -show_entries stream=codec_name -of csv=p=0 "$CFILE"; fi
if want M17 public audio_dup_dts.mkv media process "" "one audio packet repeats the previous timestamp"; then
  F -i "$(basemp4)" -c copy -bsf:a "setts=pts='if(eq(N,40),PREV_OUTPTS,PTS)':dts='if(eq(N,40),PREV_OUTDTS,DTS)'" "${BX[@]}" "$CFILE"
  vfy "dup dts" 'dup' bash -c 'ffprobe -v error -select_streams a -show_entries packet=dts -of csv=p=0 "$0" | awk "NR>1&&\$1<=p{print \"dup\"}{p=\$1}"' "$CFILE"; fi
if want M19 public avi_bframes_nopts.avi media process "--aac-ok --av-tol 75" "AVI H.264 with B-frames: packets carry no pts"; then
  reset; AA=(-c:a libmp3lame -b:a 128k); enc "$CFILE" "$(std)" 30 120 "$V601"
  vfy "pts N/A" 'N/A' ffprobe -v error -select_streams v -show_entries packet=pts -of csv=p=0 "$CFILE"; fi
if want M21 public corrupt_packets.mkv media degrade "--lossy-ref --min-frames 110" "four damaged video packets mid-file"; then
  F -i "$(basemp4)" -c copy -bsf:v "noise=amount='between(n,40,43)*13'" "${BX[@]}" "$CFILE"
  vfy "decode errors" '(error|concealing|Invalid|corrupt)' bash -c 'ffmpeg -nostdin -v warning -i "$0" -map 0:v -f null - 2>&1' "$CFILE"; fi
if want M22 public moov_missing.mp4 media reject "" "recording stopped before moov was written"; then
  s=$(stat -c %s "$(basemp4)"); head -c $((s*7/10)) "$W/base.mp4" >"$CFILE"; vfy "moov" 'moov atom not found' ffprobe -v error "$CFILE"; fi
if want M24 public zero_bytes.mp4 media reject "" "empty file"; then : >"$CFILE"; vfy "unreadable" '.+' ffprobe -v error "$CFILE"; fi
if want M25 public not_a_video.mp4 media reject "" "text with a video suffix"; then printf 'this is not a video\n%.0s' $(seq 400) >"$CFILE"; vfy "unreadable" '.+' ffprobe -v error "$CFILE"; fi
if want M26 public reschange.ts media process "--reschange" "640x360 switches to 480x270 at frame 60"; then
  reset; VA=(-c:v libx264 -preset medium -crf 16 -g 30 -bf 0 -threads 1); AA=()
  enc "$W/r1.h264" "$(std)" 30 60 "$V601"
  F -r 30 -i "$(std)" -vf "select='gte(n,60)',setpts=PTS-STARTPTS,scale=480:270:out_color_matrix=bt601:out_range=tv:$SW,format=yuv420p" -an "${VA[@]}" "${BX[@]}" "$W/r2.h264"
  cat "$W/r1.h264" "$W/r2.h264" >"$W/r.h264"; F -t 4 -i "$A" "${AAC[@]}" "${BX[@]}" "$W/r.m4a"
  F -r 30 -f h264 -i "$W/r.h264" -i "$W/r.m4a" -map 0 -map 1 -c copy "${BX[@]}" "$CFILE"
  vfy "two sizes" '640,360.*480,270' bash -c 'ffprobe -v error -select_streams v -show_entries frame=width,height -of csv=p=0 "$0" | sort -ru' "$CFILE"; fi
if want M28 public ts_clock_reset.ts media process "--pts-policy monotonic" "publisher reconnect: clock restarts at frame 60"; then
  reset; EXTRA=(-f mpegts); AD=2 enc "$W/p1.ts" "$(std)" 30 60 "$V601"
  F -r 30 -i "$(std)" -ss 2 -t 2 -i "$A" -map 0:v -map 1:a -vf "trim=start_frame=60:end_frame=120,setpts=PTS-STARTPTS,$V601" "${X264[@]}" "${AAC[@]}" "${BX[@]}" -f mpegts "$W/p2.ts"
  cat "$W/p1.ts" "$W/p2.ts" >"$CFILE"
  vfy "pts goes back" 'back' bash -c 'ffprobe -v error -select_streams v -show_entries packet=dts -of csv=p=0 "$0" | awk "NR>1&&\$1<p{print \"back\"}{p=\$1}"' "$CFILE"; fi
if want M31 public prime_61.mp4 media process "" "61 frames: no batch size divides it, last frames need a flush"; then
  reset; VA=(-c:v libx264 -preset medium -crf 16 -g 30 -bf 3 -threads 1); enc "$CFILE" "$(std)" 30 61 "$V601"; vfy "61" '^61' nframes; fi
if want M33 public one_frame.mp4 media process "" "single-frame video"; then reset; AA=(); enc "$CFILE" "$(std)" 30 1 "$V601"; vfy "1 frame" '^1( |$)' nframes; fi

# ================= geometry =================
portrait() { m port 360 640 30 90; }
if want M40 public rotate90_phone.mp4 media process "" "portrait phone clip: coded 640x360 + display matrix"; then
  reset; enc "$W/rt.mp4" "$(portrait)" 30 90 "transpose=2,$V601"; F -i "$W/rt.mp4" -c copy "${BX[@]}" -metadata:s:v:0 rotate=90 "$CFILE"
  vfy "matrix" 'rotation of (-|)90' bash -c 'ffprobe -hide_banner "$0" 2>&1' "$CFILE"; fi
if want M42 public odd_dims_vp9.webm media process "--aac-ok --pad-ok" "427x241, 4:2:0"; then
  reset; VA=(-c:v libvpx-vp9 -crf 18 -b:v 0 -deadline good -cpu-used 4 -threads 1 -row-mt 0); AA=(-c:a libopus -b:a 96k); enc "$CFILE" "$(m odd 427 241 30 90)" 30 90 "$V601"
  vfy "size" '^427,241' pv width,height; fi
if want M43 public odd_444.mkv media process "--pad-ok" "641x361 H.264 4:4:4"; then
  reset; VA=("${X264[@]}" -profile:v high444); enc "$CFILE" "$(m odd2 641 361 30 60)" 30 60 "${V601/yuv420p/yuv444p}"; vfy "size" '^641,361,yuv444p' pv width,height,pix_fmt; fi
if want M44 public anamorphic_sar.mp4 media process "" "720x480 SAR 32:27 (16:9 NTSC DVD shape)"; then
  reset; enc "$CFILE" "$(m dvd 720 480 30000/1001 90)" 30000/1001 90 "$V601,setsar=32/27"; vfy "sar" '^32:27,16:9' pv sample_aspect_ratio,display_aspect_ratio; fi
if want M45 public container_aspect.mkv media process "" "aspect set only in the container (display size), bitstream silent"; then
  reset; enc "$W/ca.mkv" "$(m vga 640 480 30 60)" 30 60 "$V601,setsar=0"; F -i "$W/ca.mkv" -c copy -aspect 16:9 "${BX[@]}" "$CFILE"; vfy "dar" '16:9' pv display_aspect_ratio; fi
if want M46 public interlaced_mpeg2.mpg media process "--psnr 28 --aac-ok" "576i25 top field first, MPEG-2 PS, SAR 16:11"; then
  reset; PANEL="scale=540:538,setsar=1,tinterlace=interleave_top" INFPS=50 compose "$W/int.nut" 720 576 25 75
  VA=(-c:v mpeg2video -q:v 3 -g 12 -bf 2 -flags +ilme+ildct -top 1 -threads 1); AA=(-c:a mp2 -b:a 192k)
  F -r 25 -i "$W/int.nut" -t 3 -i "$A" -map 0:v -map 1:a -vf "scale=out_color_matrix=bt601:out_range=tv:interl=1:$SW,format=yuv420p,setsar=16/11,setfield=tff" "${VA[@]}" "${AA[@]}" -fflags +bitexact -map_metadata -1 -f vob "$CFILE"
  vfy "field order" '(tt|tb)' pv field_order; fi

# ================= colour =================
if want M50 public sd_bt709_tagged.mp4 media process "--need color" "640x360 but tagged and coded bt709"; then
  reset; EXTRA=("${T709[@]}"); enc "$CFILE" "$(std)" 30 60 "$V709"; vfy "tags" '^tv,bt709,bt709,bt709' pv color_range,color_space,color_transfer,color_primaries; fi
if want M52 public full_range.mp4 media process "--need color" "full-range (pc) bt709 H.264"; then
  reset; EXTRA=(-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range pc); enc "$CFILE" "$(std)" 30 60 "scale=out_color_matrix=bt709:out_range=pc:$SW,format=yuvj420p"; vfy "pc" '^pc,bt709' pv color_range,color_space; fi
HD="setsar=1,format=gbrp,zscale=tin=bt709:pin=bt709:min=gbr:rin=full:npl=203:p=2020"
if want M53 public hdr10_pq.mp4 media process "--need color --hdr" "HEVC Main10, bt2020nc / PQ (HDR10)"; then
  reset; VA=(-c:v libx265 -preset medium -crf 16 -tag:v hvc1 -x265-params "log-level=none:pools=none:frame-threads=1:keyint=30:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:range=limited:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400"); EXTRA=(-colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084 -color_range tv)
  enc "$CFILE" "$(std)" 30 60 "$HD:t=smpte2084:m=2020_ncl:r=limited,format=yuv420p10le"; vfy "tags" 'yuv420p10le,tv,bt2020nc,smpte2084,bt2020' pv pix_fmt,color_range,color_space,color_transfer,color_primaries; fi
if want M55 public sdr_10bit.mkv media process "--need color" "H.264 High 10, bt709"; then
  reset; EXTRA=("${T709[@]}"); enc "$CFILE" "$(std)" 30 60 "${V709/yuv420p/yuv420p10le}"; vfy "10 bit" 'yuv420p10le' pv pix_fmt; fi

# ================= formats and containers =================
if want M60 public clip.gif media process "--color-tol 20 --psnr 22" "animated GIF 320x180, 10 fps, no audio concept"; then
  F -r 10 -i "$(m gif 320 180 10 30)" -vf "split[a][b];[a]palettegen=max_colors=128:reserve_transparent=0[p];[b][p]paletteuse=dither=none" -frames:v 30 "${BX[@]}" "$CFILE"; vfy "gif" 'gif' pv codec_name; fi
if want M61 public av1_opus.mkv media process "--aac-ok" "AV1 + Opus"; then
  reset; VA=(-c:v libsvtav1 -preset 8 -crf 24 -svtav1-params lp=1); AA=(-c:a libopus -b:a 96k); enc "$CFILE" "$(std)" 30 90 "$V601" 2>/dev/null; vfy "av1" 'av1' pv codec_name; fi
if want M62 public prores_tmcd.mov media process "--need timecode --psnr 30" "ProRes 422 10-bit, PCM 24, timecode track 01:00:00:00, 23.976"; then
  reset; VA=(-c:v prores_ks -profile:v 0 -qscale:v 12 -threads 1); AA=(-c:a pcm_s24le); EXTRA=(-timecode 01:00:00:00 -movflags +write_colr "${T709[@]}"); enc "$CFILE" "$(m n23 640 360 24000/1001 144)" 24000/1001 36 "${V709/yuv420p/yuv422p10le},setparams=colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv"
  vfy "tags" 'bt709,bt709,bt709' pv color_space,color_transfer,color_primaries
  vfy "tmcd" '01:00:00:00' bash -c 'ffprobe -hide_banner "$0" 2>&1' "$CFILE"; fi
if want M63 public vp9_opus.webm media process "--aac-ok" "VP9 with hidden alt-ref frames + Opus pre-skip"; then
  reset; VA=(-c:v libvpx-vp9 -crf 18 -b:v 0 -deadline good -cpu-used 4 -threads 1 -auto-alt-ref 1 -lag-in-frames 25); AA=(-c:a libopus -b:a 96k); enc "$CFILE" "$(std)" 30 90 "$V601"; vfy "vp9" 'vp9' pv codec_name; fi
if want M64 public chapters_subs.mkv media process "--need chapters,subs,title" "SRT subtitle, two chapters, title"; then
  printf '1\n00:00:00,500 --> 00:00:01,500\nfirst line\n\n2\n00:00:02,000 --> 00:00:03,500\nsecond line\n' >"$W/s.srt"
  printf ';FFMETADATA1\ntitle=case title\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=2000\ntitle=one\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=2000\nEND=4000\ntitle=two\n' >"$W/c.txt"
  F -i "$(basemp4)" -i "$W/s.srt" -i "$W/c.txt" -map 0 -map 1 -c copy -c:s srt -fflags +bitexact -map_metadata 2 -map_chapters 2 "$CFILE"
  vfy "2 chapters + subs" 'Chapter #0:1.*Subtitle' bash -c 'ffprobe -hide_banner "$0" 2>&1' "$CFILE"; fi
if want M65 public "Тест видео — ünï (1) 'q' & ;.mp4" media process "" "unicode, spaces, quotes in the name"; then cp "$(basemp4)" "$CFILE"; vfy "120" '^120' nframes; fi
if want M68 public hevc_mov.mov media process "" "HEVC 8-bit hvc1 in MOV"; then
  reset; VA=(-c:v libx265 -preset medium -crf 18 -tag:v hvc1 -x265-params log-level=none:pools=none:frame-threads=1:keyint=30:bframes=3); enc "$CFILE" "$(std)" 30 90 "$V601"; vfy "hevc" 'hevc' pv codec_name; fi
if want M69 public target_image.jpg image process "" "still image as target"; then F -r 30 -i "$(std)" -frames:v 1 -q:v 2 "${BX[@]}" "$CFILE"; vfy "mjpeg" '640,360' pv width,height; fi
if want M70 public uhd_8f.mp4 media process "--psnr 28" "3840x2160: raw frame 24.9 MB RGB, far over Kafka's 1 MB default"; then
  reset; VA=(-c:v libx264 -preset medium -crf 24 -g 30 -bf 2 -threads 1); enc "$CFILE" "$(std)" 30 8 "scale=3840:2160:flags=bicubic,${V709}"; vfy "uhd" '3840,2160' pv width,height; fi

# ================= faces =================
if want M80 public noface_mid.mp4 media process "--face-off 40-79" "no face in frames 40-79"; then
  reset; PANEL="drawbox=t=fill:color=0x507050:enable='between(n,40,79)'" compose "$W/nf.nut" 640 360 30 120; enc "$CFILE" "$W/nf.nut" 30 120 "$V601"; vfy "120" '^120' nframes; fi
if want M81 public two_faces.mp4 media process "" "two different people side by side"; then
  reset; F -i "$BASE" -i "$ASTRO" -filter_complex "[1]crop=220:270:130:10,scale=235:288,loop=-1:1[b];[0]setsar=1,scale=352:288,crop=250:288:70:0[a];[a][b]hstack=shortest=1,scale=480:336,format=gbrp" -frames:v 120 -r 30 -c:v ffv1 -f nut "$W/tfsrc.nut"
  SRC=$W/tfsrc.nut compose "$W/tf.nut" 640 360 30 60; enc "$CFILE" "$W/tf.nut" 30 60 "$V601"; vfy "60" '^60' nframes; fi
if want M83 public face_at_border.mp4 media process "" "face slides out of the top edge"; then
  reset; PANEL="scale=480:520,crop=480:336:0:'60+60*sin(n/12)'" compose "$W/ed.nut" 640 360 30 90; enc "$CFILE" "$W/ed.nut" 30 90 "$V601"; vfy "90" '^90' nframes; fi
# source images (other person: the NASA portrait shipped with scikit-image, public domain)
FACE="crop=260:320:110:0"
if want S01 public src_plain.png source process "" "reference source face"; then F -i "$ASTRO" -vf "$FACE" "${BX[@]}" "$CFILE"; vfy "size" '260,320' pv width,height; fi
if want S02 public src_exif6.jpg source process "" "EXIF orientation 6 (pixels lie on their side)"; then
  F -i "$ASTRO" -vf "$FACE,transpose=2" -q:v 2 "${BX[@]}" "$W/e.jpg"
  { printf '\xff\xd8\xff\xe1\x00\x22Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00'; tail -c +3 "$W/e.jpg"; } >"$CFILE"; vfy "sideways pixels" '320,260' pv width,height; fi
if want S03 public src_gray.png source process "" "single-channel 8-bit PNG"; then F -i "$ASTRO" -vf "$FACE,format=gray" "${BX[@]}" "$CFILE"; vfy "gray" 'gray' pv pix_fmt; fi
if want S05 public src_noface.jpg source reject "" "source without a face"; then F -f lavfi -i "smptebars=s=320x240" -frames:v 1 -q:v 2 "${BX[@]}" "$CFILE"; vfy "image" '320,240' pv width,height; fi
if want S07 public src_rgb48.png source process "" "16-bit PNG"; then F -i "$ASTRO" -vf "$FACE,format=rgb48be" "${BX[@]}" "$CFILE"; vfy "48" 'rgb48be' pv pix_fmt; fi

. "$(dirname "$0")/more_cases.sh"

[ -z "$LIST" ] || exit 0
if grep ^FAIL "$VER" >&2; then exit 1; fi
