/**
 * Registers the gradients of tfjs and its cpu backend with tfjs-core. Files that start a backend
 * import this file; all others import tfjs-core alone.
 */
import { MathBackendCPU } from '@tensorflow/tfjs-backend-cpu'
import { findBackendFactory, registerBackend } from '@tensorflow/tfjs-core'
import '../../assets/gradients.js'

// The package registers its backend by itself. Bundlers drop it unless the program uses one of its
// names, because its package.json does not list its main file under "sideEffects".
if (findBackendFactory('cpu') === null) registerBackend('cpu', () => new MathBackendCPU(), 1)
