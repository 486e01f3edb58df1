/**
 * The tensor engine: TensorFlow.js on onnxruntime, compiled functions, ownership, fused operations.
 *
 * Importing it is enough: the first tensor operation starts onnxruntime.
 */
import './defaultBackend.js'

export { adoptTensor, type Bound, type Jitted, jit } from './jit.js'
export { masked, maskedLogSumExp, maskedMean, maskedRowMean, maskedSum, maskedVariance } from './masked.js'
export { BACKEND_NAME } from './onnxruntime/backend.js'
export { KernelError } from './onnxruntime/origin.js'
export type { EngineStats, RuntimeOptions } from './onnxruntime/runtime.js'
export { type AttentionSource, attention, MASKED } from './ops/attention.js'
export { type LayerNormParams, layerNorm } from './ops/layerNorm.js'
export { entropy, gatherLogProbs, type TokenScores, type TokenScoresOptions, tokenScores } from './ops/logProbs.js'
export { rmsNorm } from './ops/rmsNorm.js'
export { type RotaryTable, rotary } from './ops/rotary.js'
export { type ScaledMatMulOptions, scaledMatMul } from './ops/scaledMatMul.js'
export { swiGlu } from './ops/swiGlu.js'
export { debugOwnership, liveOwned, type OwnedSite, type OwnershipDebugging } from './ownership.js'
export { type Region, region, useOwned } from './region.js'
export { activeRecordingBackend, defaultRuntimeOptions, registerOnnxRuntime } from './register.js'
export { type EngineReport, engineReport } from './report.js'
export {
  discard,
  type HoldsTensors,
  liveTensors,
  type Owned,
  own,
  ownedCount,
  scope,
  TENSORS,
  tensorsOf,
} from './scope.js'
export {
  BACKENDS,
  type BackendAttempt,
  type BackendName,
  isBackendName,
  NoBackend,
  type SelectedBackend,
  type SelectOptions,
  selectBackend,
} from './select.js'
export { type ValueAndGrad, valueAndGrad } from './valueAndGrad.js'
