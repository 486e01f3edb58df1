/**
 * The worker that holds the sessions of onnxruntime-web on WebGPU. Pages serve its compiled file
 * beside those of onnxruntime-web, so it imports nothing but types.
 *
 * The head of shared memory is three numbers: 1 after the answer was written or 2 if it has no
 * room, the bytes of the answer's JSON, and the bytes of the whole answer.
 */
import type { OnnxArray } from '../library.js'
import type { GpuAnswer, GpuRequest, GpuResult, GpuStarted } from './webGpuMessages.js'

/** The parts of onnxruntime-web that are used, in the types of its package. */
interface OrtTensor {
  readonly type: string
  readonly dims: readonly number[]
  readonly location: string
  readonly data: OnnxArray
  readonly dispose: () => void
}

interface OrtSession {
  readonly run: (
    feeds: Readonly<Record<string, OrtTensor>>,
    fetches: readonly string[],
  ) => Promise<Readonly<Record<string, OrtTensor>>>
  readonly release: () => Promise<void>
}

interface Ort {
  readonly env: { readonly wasm: { wasmPaths?: string; numThreads?: number }; logLevel?: string }
  readonly Tensor: new (type: string, data: OnnxArray, dims: readonly number[]) => OrtTensor
  readonly InferenceSession: { readonly create: (model: Uint8Array, options: object) => Promise<OrtSession> }
}

interface WorkerScope {
  readonly postMessage: (message: GpuStarted) => void
  onmessage: ((event: { readonly data: GpuRequest }) => void) | null
  /** JSPI, with which WebAssembly waits for promises. */
  readonly WebAssembly: { readonly Suspending?: object }
  readonly navigator: { readonly gpu?: { readonly requestAdapter: () => Promise<object | null> } }
}

const scope = globalThis as unknown as WorkerScope // the types of Node lack it

type Create = Extract<GpuRequest, { readonly kind: 'create' }>
type Run = Extract<GpuRequest, { readonly kind: 'run' }>

/** An answer before it is written. */
interface Written {
  readonly json: Uint8Array
  readonly data: readonly Uint8Array[]
}

const NOTHING: Written = { json: new Uint8Array(0), data: [] }

/** The bytes before an answer; they are aligned for every type. */
const HEAD_BYTES = 16

const sessions = new Map<number, OrtSession>()
const tensors = new Map<number, OrtTensor>()
let ort: Ort | undefined
let tensorCount = 0
let last: Written = NOTHING

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const library = (): Ort => {
  if (ort === undefined) throw new Error('onnxruntime-web has not started')
  return ort
}

const start = async (folder: string): Promise<void> => {
  if (scope.navigator.gpu === undefined) throw new Error('this browser has no WebGPU')
  if ((await scope.navigator.gpu.requestAdapter()) === null) throw new Error('WebGPU finds no GPU')
  if (scope.WebAssembly.Suspending === undefined)
    throw new Error('WebGPU needs a browser with JSPI, such as Chrome 137 or newer')
  const loaded = (await import(/* webpackIgnore: true */ /* @vite-ignore */ `${folder}ort.jspi.min.mjs`)) as Ort // the package's file
  loaded.env.wasm.wasmPaths = folder
  loaded.env.wasm.numThreads = 1
  loaded.env.logLevel = 'fatal'
  ort = loaded
}

/** Writes the last answer to shared memory, if it fits, and wakes the thread that waits. */
const writeAnswer = (memory: SharedArrayBuffer): void => {
  const head = new Int32Array(memory, 0, 3)
  const parts = [last.json, ...last.data]
  const bytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const fits = HEAD_BYTES + bytes <= memory.byteLength
  if (fits) {
    const target = new Uint8Array(memory, HEAD_BYTES)
    let at = 0
    for (const part of parts) {
      target.set(part, at)
      at += part.byteLength
    }
    last = NOTHING
  }
  head[1] = parts[0]!.byteLength
  head[2] = bytes
  Atomics.store(head, 0, fits ? 1 : 2)
  Atomics.notify(head, 0)
}

const answer = (memory: SharedArrayBuffer, json: GpuAnswer, data: readonly Uint8Array[] = []): void => {
  last = { json: new TextEncoder().encode(JSON.stringify(json)), data }
  writeAnswer(memory)
}

const create = async ({ memory, session, model, options }: Create): Promise<void> => {
  sessions.set(session, await library().InferenceSession.create(model, options))
  answer(memory, {})
}

const run = async ({ memory, session, feeds, fetches }: Run): Promise<void> => {
  const { Tensor } = library()
  const inputs: Record<string, OrtTensor> = {}
  for (const [name, feed] of Object.entries(feeds))
    inputs[name] = 'tensor' in feed ? tensors.get(feed.tensor)! : new Tensor(feed.type, feed.data, feed.dims)
  const outputs = await sessions.get(session)!.run(inputs, fetches)
  const results: GpuResult[] = []
  const data: Uint8Array[] = []
  let at = 0
  for (const name of fetches) {
    const output = outputs[name]!
    const { type, dims } = output
    if (output.location === 'gpu-buffer') {
      tensors.set(++tensorCount, output)
      results.push({ tensor: tensorCount, dims })
      continue
    }
    const { buffer, byteOffset, byteLength } = output.data
    results.push({ type, at, bytes: byteLength, dims })
    data.push(new Uint8Array(buffer, byteOffset, byteLength))
    at += byteLength
  }
  answer(memory, { results }, data)
}

const handle = async (request: GpuRequest): Promise<void> => {
  switch (request.kind) {
    case 'start': {
      const problem = await start(request.folder).then(() => null, messageOf)
      return scope.postMessage({ problem })
    }
    case 'create':
      return create(request).catch((error: unknown) => answer(request.memory, { problem: messageOf(error) }))
    case 'run':
      return run(request).catch((error: unknown) => answer(request.memory, { problem: messageOf(error) }))
    case 'answer':
      return writeAnswer(request.memory)
    case 'freeTensor': {
      tensors.get(request.tensor)?.dispose()
      tensors.delete(request.tensor)
      return
    }
    case 'freeSession': {
      const session = sessions.get(request.session)
      sessions.delete(request.session)
      return session?.release()
    }
  }
}

scope.onmessage = ({ data }) => void handle(data)
