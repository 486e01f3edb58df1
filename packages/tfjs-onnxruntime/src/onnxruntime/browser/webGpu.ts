/** Sessions on WebGPU that block: a worker holds them, and this thread waits for its answers. */
import { browser } from '@tandem-rl/base/host'
import {
  type DeviceTensor,
  isOnDevice,
  type OnnxArray,
  type OnnxRuntime,
  type OnnxSession,
  type OnnxTensor,
  type OnnxType,
  type SessionOptions,
} from '../library.js'
import type { GpuAnswer, GpuFeed, GpuRequest, GpuResult, GpuStarted } from './webGpuMessages.js'

/** The compiled file of `webGpuWorker.ts`, which pages serve beside those of onnxruntime-web. */
const FILE = 'webGpuWorker.js'

const HEAD_BYTES = 16

/** An answer with the bytes of its data, which nothing else uses. */
interface Received extends GpuAnswer {
  readonly data: Uint8Array
}

/** Sends a request and blocks until the worker has answered. */
type Ask = (request: (memory: SharedArrayBuffer) => GpuRequest) => Received

interface GpuTensor extends DeviceTensor {
  readonly tensor: number
}

const isGpuTensor = (tensor: DeviceTensor): tensor is GpuTensor => 'tensor' in tensor

/** Makes the two ways to reach the worker. The memory grows to the longest answer. */
const connect = (post: (request: GpuRequest) => void): Ask => {
  let memory = new SharedArrayBuffer(2 ** 20)
  const wait = (request: GpuRequest): Int32Array => {
    const head = new Int32Array(memory, 0, 3)
    Atomics.store(head, 0, 0)
    post(request)
    Atomics.wait(head, 0, 0)
    return head
  }
  return (request) => {
    let head = wait(request(memory))
    if (head[0] === 2) {
      memory = new SharedArrayBuffer(HEAD_BYTES + 2 * head[2]!)
      head = wait({ kind: 'answer', memory })
    }
    const [, jsonBytes = 0, bytes = 0] = head
    const own = new Uint8Array(memory, HEAD_BYTES, bytes).slice()
    const answer = JSON.parse(new TextDecoder().decode(own.subarray(0, jsonBytes))) as GpuAnswer // written by the worker
    if (answer.problem !== undefined) throw new Error(answer.problem)
    return { ...answer, data: own.subarray(jsonBytes) }
  }
}

const arrayOf = (type: string, { buffer }: { readonly buffer: ArrayBuffer }): OnnxArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(buffer)
    case 'int32':
      return new Int32Array(buffer)
    case 'int64':
      return new BigInt64Array(buffer)
    case 'bool':
    case 'uint8':
      return new Uint8Array(buffer)
    default:
      throw new Error(`onnxruntime returned a tensor of type ${type}, which this backend does not use`)
  }
}

const typeOf = (data: OnnxArray): OnnxType => {
  if (data instanceof Float32Array) return 'float32'
  if (data instanceof Int32Array) return 'int32'
  return data instanceof BigInt64Array ? 'int64' : 'bool'
}

const feedOf = (tensor: OnnxTensor | DeviceTensor): GpuFeed => {
  if (!isOnDevice(tensor)) return { data: tensor.data, dims: tensor.dims, type: typeOf(tensor.data) }
  if (!isGpuTensor(tensor)) throw new Error('a tensor of another device cannot be used on this GPU')
  return { tensor: tensor.tensor }
}

/** Options that the WebAssembly build knows; it has no threads for each session. */
const optionsOf = ({ intraOpNumThreads: _threads, extra: _extra, ...rest }: SessionOptions): Partial<SessionOptions> =>
  rest

const makeRuntime = (ask: Ask, post: (request: GpuRequest) => void): OnnxRuntime => {
  let sessions = 0
  const received = (result: GpuResult, data: Uint8Array): OnnxTensor | GpuTensor => {
    const { dims } = result
    if ('tensor' in result) {
      const { tensor } = result
      return { location: 'gpu-buffer', dims, tensor, dispose: () => post({ kind: 'freeTensor', tensor }) }
    }
    return { dims, data: arrayOf(result.type, data.slice(result.at, result.at + result.bytes)) }
  }
  const makeSession = (session: number): OnnxSession => ({
    run: (feeds, fetches) => {
      const names = Object.keys(fetches)
      const given = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, feedOf(tensor)]))
      const { results = [], data } = ask((memory) => ({ kind: 'run', memory, session, feeds: given, fetches: names }))
      return Object.fromEntries(names.map((name, i) => [name, received(results[i]!, data)]))
    },
    endProfiling: () => undefined,
    dispose: () => post({ kind: 'freeSession', session }),
  })
  return {
    version: 'WebGPU',
    threads: 1,
    largeConstants: 'inside',
    resultArrays: 'new',
    createSession: (model, options) => {
      const session = ++sessions
      ask((memory) => ({ kind: 'create', memory, session, model, options: optionsOf(options) }))
      return makeSession(session)
    },
    tensor: (_type, data, dims) => ({ data, dims }),
  }
}

/**
 * Starts onnxruntime-web on WebGPU in a worker of its own.
 *
 * Errors   rejects with an Error if the page is not cross-origin isolated, if the files are not
 *          served, or if there is no GPU.
 * Effects  reads files of `wasmFolder`, and starts a worker that lives as long as the page.
 */
export const loadWebGpu = async (wasmFolder: string): Promise<OnnxRuntime> => {
  if (browser.crossOriginIsolated !== true)
    throw new Error(
      'WebGPU needs a cross-origin isolated page: serve it with the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
    )
  const folder = new URL(wasmFolder.endsWith('/') ? wasmFolder : `${wasmFolder}/`, browser.location.href).href
  const worker = new browser.Worker(`${folder}${FILE}`, { type: 'module' })
  const { problem } = await new Promise<GpuStarted>((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data as GpuStarted) // the only message of the worker
    worker.onerror = () => reject(new Error(`${folder}${FILE} cannot be loaded: serve it, from the package tandem-rl`))
    worker.postMessage({ kind: 'start', folder } satisfies GpuRequest)
  })
  if (problem !== null) {
    worker.terminate()
    throw new Error(problem)
  }
  const post = (request: GpuRequest): void => worker.postMessage(request)
  return makeRuntime(connect(post), post)
}
