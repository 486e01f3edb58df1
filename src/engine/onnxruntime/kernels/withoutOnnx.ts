/** The kernels of tfjs that run on its cpu backend, with the reasons. */

const COMPLEX = 'complex numbers are kept as pairs of tensors, which ONNX operations do not take'
const STRINGS = 'works on strings, which the recorded graphs do not hold'
const DATA_SHAPE = 'the shape of the result depends on the values, and recorded shapes are known before anything runs'
const CHECKED = 'refuses some values with an error when it is called, and a recorded call knows no values'

/**
 * The reason for each kernel name. Every kernel of tfjs's cpu backend has a rule or is listed here.
 */
export const WITHOUT_ONNX: Readonly<Record<string, string>> = {
  Bincount: CHECKED,
  BroadcastArgs: 'computes with shapes of a few numbers, whose check for fitting is a check of values',
  Complex: COMPLEX,
  ComplexAbs: COMPLEX,
  CropAndResize:
    'the boxes are values: each result pixel would be four gathers at computed places with a test of bounds',
  DenseBincount: CHECKED,
  Dilation2D: 'no operation takes the maximum of sums over windows',
  Dilation2DBackpropFilter: 'no operation takes the maximum of sums over windows',
  Dilation2DBackpropInput: 'no operation takes the maximum of sums over windows',
  Draw: 'draws on a canvas',
  FFT: COMPLEX,
  IFFT: COMPLEX,
  Imag: COMPLEX,
  Multinomial: 'draws from the generator of tfjs, so that a seed gives the same samples on all backends',
  NonMaxSuppressionV3: DATA_SHAPE,
  NonMaxSuppressionV4: DATA_SHAPE,
  NonMaxSuppressionV5: DATA_SHAPE,
  RaggedGather: DATA_SHAPE,
  RaggedRange: DATA_SHAPE,
  RaggedTensorToTensor: DATA_SHAPE,
  Real: COMPLEX,
  RotateWithOffset: 'rounds places computed in float64: float32 chooses other pixels',
  SearchSorted: 'no operation searches; a comparison of every value with every bound would cost their product',
  SparseFillEmptyRows: DATA_SHAPE,
  SparseReshape: CHECKED,
  SparseSegmentMean: DATA_SHAPE,
  SparseSegmentSum: DATA_SHAPE,
  StaticRegexReplace: STRINGS,
  StringNGrams: STRINGS,
  StringSplit: STRINGS,
  StringToHashBucketFast: STRINGS,
  Transform: 'rounds places computed in float64: float32 chooses other pixels',
  Unique: DATA_SHAPE,
}
