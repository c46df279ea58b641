"""Engine `onnx`: FaceFusion's models behind our batches, on any provider of ONNX Runtime.

catalog    every model as data          options   what a job may ask for
protobuf   the bytes of a model file    session   runs a model over any number of items at once
surface    a picture of B G R           planes    a frame of Y'CbCr planes, for the same stages
tensors    pictures to model inputs     align     templates and similarities
detect     boxes and five points        landmarks 68 points
recognise  embedding, gender, age, race faces     what is known of a face
select     which faces are changed      swap      crops through a swapper
enhance    crops through an enhancer    masks     where a crop counts
source     the face that is put in      analyse   all faces of many frames
pipeline   the chain over many frames   engine    frames in, patches out
content    the content check's vote
"""
