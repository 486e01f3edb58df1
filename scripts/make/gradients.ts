/**
 * Writes the gradients of tfjs as a module that Node can load, to the assets of the backend's
 * package: `npm run make -- gradients`.
 *
 * tfjs-core ships its gradients only as files for bundlers: they have the syntax of ES modules in a
 * package that Node takes for CommonJS. `@tensorflow/tfjs` has them joined into one file, but comes
 * with 220 MB of other parts. Here they are joined into a file of their own, which takes from
 * tfjs-core whatever tfjs-core exports.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gradientsModule } from '../kit/gradientsModule.js'

const FILE = fileURLToPath(new URL('../../packages/tfjs-onnxruntime/assets/gradients.js', import.meta.url))

writeFileSync(FILE, await gradientsModule())
