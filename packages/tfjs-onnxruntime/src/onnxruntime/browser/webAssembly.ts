/** Sessions of onnxruntime-web that run synchronously on WebAssembly with SIMD and threads. */
import { errorMessage } from '@tandem-rl/base'
import {
  isOnDevice,
  type OnnxArray,
  type OnnxRuntime,
  type OnnxSession,
  type OnnxTensor,
  type PrepareOptions,
  type SessionOptions,
} from '../library.js'
import {
  check,
  copyIn,
  copyText,
  created,
  listOnStack,
  type OrtModule,
  onStack,
  readList,
  type StartModule,
} from './emscripten.js'

const FILE = 'ort-wasm-simd-threaded.mjs'

/** Codes of element types in ONNX. */
const TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7, bool: 9 } as const

const typeOf = (data: OnnxArray): number => {
  if (data instanceof Float32Array) return TYPES.float32
  if (data instanceof Int32Array) return TYPES.int32
  return data instanceof BigInt64Array ? TYPES.int64 : TYPES.bool
}

/** Makes an array of bytes that nothing else uses. */
const arrayOf = (type: number, { buffer }: Uint8Array): OnnxArray => {
  switch (type) {
    case TYPES.float32:
      return new Float32Array(buffer)
    case TYPES.int32:
      return new Int32Array(buffer)
    case TYPES.int64:
      return new BigInt64Array(buffer)
    case TYPES.bool:
    case TYPES.uint8:
      return new Uint8Array(buffer)
    default:
      throw new Error(`onnxruntime returned a tensor of type ${type}, which this backend does not use`)
  }
}

const ELEMENT_BYTES: Readonly<Record<number, number>> = { 1: 4, 2: 1, 6: 4, 7: 8, 9: 1 }

const CPU = 1

/** Copies a tensor into the module. The tensor uses the data, so both are freed after the run. */
const giveTensor = (ort: OrtModule, { data, dims }: OnnxTensor): { readonly tensor: number; readonly data: number } => {
  const address = copyIn(ort, data)
  return onStack(ort, () => {
    const shape = listOnStack(ort, dims)
    const tensor = ort._OrtCreateTensor(typeOf(data), address, data.byteLength, shape, dims.length, CPU)
    return { tensor: created(ort, tensor), data: address }
  })
}

/** Copies a tensor out of the module. */
const takeTensor = (ort: OrtModule, tensor: number): OnnxTensor =>
  onStack(ort, () => {
    const size = ort.PTR_SIZE
    const place = ort.stackAlloc(4 * size)
    check(ort, ort._OrtGetTensorData(tensor, place, place + size, place + 2 * size, place + 3 * size))
    const [type = 0, data = 0, shape = 0, rank = 0] = readList(ort, place, 4)
    const dims = readList(ort, shape, rank)
    ort._OrtFree(shape)
    const bytes = dims.reduce((product, n) => product * n, ELEMENT_BYTES[type] ?? 1)
    const own = new Uint8Array(bytes) // a slice of shared memory would be shared, too
    own.set(ort.HEAPU8.subarray(data, data + bytes))
    return { data: arrayOf(type, own), dims }
  })

const LEVELS = { disabled: 0, basic: 1, extended: 2, all: 99 } as const

const MODES = { sequential: 0, parallel: 1 } as const

const loadSession = (ort: OrtModule, model: Uint8Array, options: SessionOptions): number => {
  const { graphOptimizationLevel, enableCpuMemArena, enableMemPattern, executionMode, logSeverityLevel } = options
  const [level, mode] = [LEVELS[graphOptimizationLevel], MODES[executionMode]]
  const [arena, pattern] = [enableCpuMemArena ? 1 : 0, enableMemPattern ? 1 : 0] as const
  const made = created(ort, ort._OrtCreateSessionOptions(level, arena, pattern, mode, 0, 0, 0, logSeverityLevel, 0, 0))
  const data = copyIn(ort, model)
  try {
    return created(ort, ort._OrtCreateSession(data, model.byteLength, made))
  } finally {
    ort._free(data)
    ort._OrtReleaseSessionOptions(made)
  }
}

/** Makes a session. The module has one pool of threads, so those of the options are not used. */
const makeSession = (ort: OrtModule, session: number, runOptions: number): OnnxSession => {
  const names = new Map<string, number>()
  const nameOf = (text: string): number => {
    const known = names.get(text)
    if (known !== undefined) return known
    const address = copyText(ort, text)
    names.set(text, address)
    return address
  }
  const compute = (inputNames: readonly string[], inputs: readonly number[], outputNames: readonly string[]) =>
    onStack(ort, () => {
      const outputs = listOnStack(
        ort,
        outputNames.map(() => 0),
      )
      const [given, values] = [listOnStack(ort, inputNames.map(nameOf)), listOnStack(ort, inputs)]
      const wanted = listOnStack(ort, outputNames.map(nameOf))
      check(ort, ort._OrtRun(session, given, values, inputs.length, wanted, outputNames.length, outputs, runOptions))
      return readList(ort, outputs, outputNames.length)
    })
  return {
    run: (feeds, fetches) => {
      const [inputNames, outputNames] = [Object.keys(feeds), Object.keys(fetches)]
      const inputs: { readonly tensor: number; readonly data: number }[] = []
      let outputs: readonly number[] = []
      try {
        for (const feed of Object.values(feeds)) {
          if (isOnDevice(feed)) throw new Error('the WebAssembly build of onnxruntime has no device')
          inputs.push(giveTensor(ort, feed))
        }
        outputs = compute(
          inputNames,
          inputs.map(({ tensor }) => tensor),
          outputNames,
        )
        return Object.fromEntries(outputNames.map((name, i) => [name, takeTensor(ort, outputs[i]!)]))
      } finally {
        for (const { tensor, data } of inputs) {
          ort._OrtReleaseTensor(tensor)
          ort._free(data)
        }
        for (const tensor of outputs) ort._OrtReleaseTensor(tensor)
      }
    },
    endProfiling: () => undefined,
    dispose: () => {
      check(ort, ort._OrtReleaseSession(session))
      for (const address of names.values()) ort._free(address)
    },
  }
}

/** Errors of onnxruntime below which nothing is logged: they are thrown. */
const FATAL = 4

/**
 * Starts the WebAssembly module.
 *
 * Errors   rejects with an Error that names onnxruntime-web if its files are not served.
 * Effects  reads two files of `wasmFolder`, and starts `threads - 1` workers that live as long as
 *          the page.
 */
export const loadWebAssembly = async ({
  threads,
  wasmFolder,
}: Required<Pick<PrepareOptions, 'threads' | 'wasmFolder'>>): Promise<OnnxRuntime> => {
  const url = new URL(FILE, wasmFolder.endsWith('/') ? wasmFolder : `${wasmFolder}/`)
  const { default: start } = await import(/* webpackIgnore: true */ /* @vite-ignore */ url.href).then(
    (module: { readonly default: StartModule }) => module,
    (error: unknown) => {
      const hint = `serve ${FILE} and its .wasm file, of the folder dist of the package onnxruntime-web`
      throw new Error(`${url.href} cannot be loaded (${errorMessage(error)}): ${hint}`)
    },
  )
  const ort = await start({ numThreads: threads, locateFile: (name) => new URL(name, url).href })
  check(ort, ort._OrtInit(threads, FATAL))
  const runOptions = created(ort, ort._OrtCreateRunOptions(FATAL, 0, 0, 0))
  return {
    version: 'WebAssembly',
    threads,
    largeConstants: 'inside',
    resultArrays: 'new',
    createSession: (model, options) => makeSession(ort, loadSession(ort, model, options), runOptions),
    tensor: (_type, data, dims) => ({ data, dims }),
  }
}
