/**
 * For those who compute with tensors themselves: the choice of a backend, compiled functions,
 * ownership of tensors, fused operations and gradients. Importing it is enough: the first tensor
 * operation starts onnxruntime.
 *
 * @module
 */
import '../engine/defaultBackend.js'

export { type Jitted, jit } from '../engine/jit.js'
export { masked } from '../engine/masked.js'
export { BACKEND_NAME } from '../engine/onnxruntime/backend.js'
export { KernelError } from '../engine/onnxruntime/origin.js'
export type { EngineStats, RuntimeOptions } from '../engine/onnxruntime/runtime.js'
export { type AttentionSource, attention, MASKED } from '../engine/ops/attention.js'
export { entropy, gatherLogProbs } from '../engine/ops/logProbs.js'
export { type RotaryTable, rotary } from '../engine/ops/rotary.js'
export { debugOwnership, liveOwned, type OwnedSite, type OwnershipDebugging } from '../engine/ownership.js'
export type { Hosted, Prepared, PreparedArguments } from '../engine/prepared.js'
export { type Region, region, useOwned } from '../engine/region.js'
export { activeRecordingBackend, registerOnnxRuntime } from '../engine/register.js'
export { type EngineReport, engineReport } from '../engine/report.js'
export {
  discard,
  type HoldsTensors,
  liveTensors,
  type Owned,
  own,
  ownedCount,
  scope,
  TENSORS,
} from '../engine/scope.js'
export {
  BACKENDS,
  type BackendAttempt,
  type BackendName,
  isBackendName,
  NoBackend,
  type SelectedBackend,
  type SelectOptions,
  selectBackend,
} from '../engine/select.js'
export { type ValueAndGrad, valueAndGrad } from '../engine/valueAndGrad.js'
