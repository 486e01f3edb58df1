/** A worker thread with a backend of its own: answers with the product of two matrices. */
import { parentPort } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

register()
const tf = await import('@tensorflow/tfjs-core')
const { registerOnnxRuntime } = await import('../../packages/tfjs-onnxruntime/src/register.js')
registerOnnxRuntime({ threads: 1, spinning: 'off' })
await tf.setBackend('onnxruntime')
parentPort.postMessage(Array.from(tf.matMul(tf.ones([2, 3]), tf.fill([3, 1], 2)).dataSync()))
