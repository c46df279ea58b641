"""Engine `mesh`: a source face unwrapped to a texture and drawn on the tracked mesh of each target face.

detect     BlazeFace: where faces are              search     where to look for faces, and how
landmarks  468-point mesh of one face              track      which face is which, ahead and back in time
smooth     quietens landmarks between frames       texture    source pictures to one texture
colour     the target's light on the texture       render     texture to patches
kernels    inner loops, compiled by numba          topology   the canonical mesh and its parts
cover      where the texture goes                  occlusion  what stands before a face
eyes       whether they are closed                 pose       how far a face is turned away
"""
