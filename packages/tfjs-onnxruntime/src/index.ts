/**
 * For those who compute with tensors themselves: a backend of tfjs on onnxruntime, the choice of a
 * backend, compiled functions, ownership of tensors and fused operations. Importing it is enough:
 * the first tensor operation starts onnxruntime. The names of `@tandem-rl/tfjs-onnxruntime/scope`
 * are here too; that path loads no backend.
 *
 * @module
 */
import './defaultBackend.js'

export { isTensor } from './compiledEntry.js'
export { adoptTensor, type Jitted, jit, type VaryingAxes } from './jit.js'
export { type Consuming, jitConsuming } from './jitConsuming.js'
export { onCpu } from './onCpu.js'
export { BACKEND_NAME } from './onnxruntime/backend.js'
export { KernelError } from './onnxruntime/origin.js'
export type { EngineStats, RuntimeOptions } from './onnxruntime/runtime.js'
export { type Activation, activate, gate } from './ops/activation.js'
export { type AttentionSource, attention, MASKED } from './ops/attention.js'
export { cachedAttention } from './ops/cachedAttention.js'
export { decodeAttention } from './ops/decodeAttention.js'
export { layerNorm } from './ops/layerNorm.js'
export { linearLayer } from './ops/linear.js'
export { entropy, gatherLogProbs, tokenScores } from './ops/logProbs.js'
export { rmsNorm } from './ops/rmsNorm.js'
export { type RotaryTable, rotary } from './ops/rotary.js'
export { rowMax } from './ops/rowMax.js'
export { debugOwnership, liveOwned, type OwnedSite, type OwnershipDebugging } from './ownership.js'
export type { Hosted, Prepared, PreparedArguments } from './prepared.js'
export { type Region, region, useOwned } from './region.js'
export { activeRecordingBackend, registerOnnxRuntime } from './register.js'
export { type EngineReport, engineReport } from './report.js'
export { discard, liveTensors, type Owned, own, ownedCount, scope, TENSORS } from './scope.js'
export {
  BACKEND_CANDIDATES,
  BACKENDS,
  type BackendAttempt,
  type BackendCandidate,
  type BackendName,
  isBackendName,
  NoBackend,
  type SelectedBackend,
  type SelectOptions,
  selectBackend,
} from './select.js'
export { stopGradient } from './stopGradient.js'
export { type EngineThreads, engineThreads } from './threads.js'
export { type ValueAndGrad, valueAndGrad } from './valueAndGrad.js'
