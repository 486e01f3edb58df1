/**
 * Registers the gradients of tfjs and its cpu backend with tfjs-core. Files that start a backend
 * import this file; all others import tfjs-core alone.
 */
import '@tensorflow/tfjs-backend-cpu'
import '../../../assets/tfjs/gradients.js'
