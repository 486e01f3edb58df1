/**
 * The WebAssembly module of onnxruntime-web, as its file `ort-wasm-simd-threaded.mjs` exports it,
 * and the handling of its memory and its errors.
 *
 * The public functions of the package return promises; a tfjs backend must answer `dataSync`, so
 * this folder calls the functions of the module, which block. Their shapes are those of the sources
 * of onnxruntime-web 1.30.0 (`lib/wasm/wasm-types.ts`). An address is a number, 0 for none.
 */

/** A boolean of C. */
type Flag = 0 | 1

export interface OrtModule {
  readonly HEAPU8: Uint8Array
  readonly PTR_SIZE: number
  readonly _malloc: (bytes: number) => number
  readonly _free: (address: number) => void
  readonly stackSave: () => number
  readonly stackRestore: (stack: number) => void
  readonly stackAlloc: (bytes: number) => number
  readonly getValue: (address: number, type: '*') => number
  readonly setValue: (address: number, value: number, type: '*') => void
  readonly UTF8ToString: (address: number) => string
  readonly lengthBytesUTF8: (text: string) => number
  readonly stringToUTF8: (text: string, address: number, bytes: number) => void
  readonly _OrtInit: (threads: number, logLevel: number) => number
  readonly _OrtGetLastError: (code: number, message: number) => number
  readonly _OrtCreateSessionOptions: (
    optimization: number,
    arena: Flag,
    memoryPattern: Flag,
    executionMode: number,
    profiling: Flag,
    profilePrefix: number,
    logId: number,
    logSeverity: number,
    logVerbosity: number,
    optimizedModelPath: number,
  ) => number
  readonly _OrtReleaseSessionOptions: (options: number) => number
  readonly _OrtCreateSession: (model: number, bytes: number, options: number) => number
  readonly _OrtReleaseSession: (session: number) => number
  readonly _OrtCreateTensor: (
    type: number,
    data: number,
    bytes: number,
    dims: number,
    rank: number,
    location: number,
  ) => number
  readonly _OrtGetTensorData: (tensor: number, type: number, data: number, dims: number, rank: number) => number
  readonly _OrtReleaseTensor: (tensor: number) => number
  readonly _OrtFree: (address: number) => number
  readonly _OrtCreateRunOptions: (severity: number, verbosity: number, terminate: Flag, tag: number) => number
  readonly _OrtRun: (
    session: number,
    inputNames: number,
    inputs: number,
    inputCount: number,
    outputNames: number,
    outputCount: number,
    outputs: number,
    options: number,
  ) => number
}

/** The export of the module's file: a function that starts the module. */
export type StartModule = (config: {
  readonly numThreads: number
  readonly locateFile: (name: string) => string
}) => Promise<OrtModule>

/** Runs `f` and then frees what it has allocated on the stack of the module. */
export const onStack = <T>(ort: OrtModule, f: () => T): T => {
  const stack = ort.stackSave()
  try {
    return f()
  } finally {
    ort.stackRestore(stack)
  }
}

/** Throws the last error of the module. */
export const throwLast = (ort: OrtModule): never =>
  onStack(ort, () => {
    const place = ort.stackAlloc(2 * ort.PTR_SIZE)
    ort._OrtGetLastError(place, place + ort.PTR_SIZE)
    const message = ort.getValue(place + ort.PTR_SIZE, '*')
    throw new Error(message === 0 ? 'onnxruntime failed without a message' : ort.UTF8ToString(message))
  })

/** Throws the last error if a call has returned a code other than 0. */
export const check = (ort: OrtModule, code: number): void => {
  if (code !== 0) throwLast(ort)
}

/** Returns an address, or throws the last error if it is 0. */
export const created = (ort: OrtModule, address: number): number => (address === 0 ? throwLast(ort) : address)

/** Copies bytes into the memory of the module. The caller frees the address. */
export const copyIn = (ort: OrtModule, { buffer, byteOffset, byteLength }: ArrayBufferView): number => {
  const address = ort._malloc(byteLength)
  if (address === 0 && byteLength > 0) throw new Error(`the WebAssembly memory has no room for ${byteLength} bytes`)
  ort.HEAPU8.set(new Uint8Array(buffer, byteOffset, byteLength), address)
  return address
}

/** Copies a text into the memory of the module. The caller frees the address. */
export const copyText = (ort: OrtModule, text: string): number => {
  const bytes = ort.lengthBytesUTF8(text) + 1
  const address = ort._malloc(bytes)
  ort.stringToUTF8(text, address, bytes)
  return address
}

/** Writes addresses or sizes to the stack of the module, one after another. */
export const listOnStack = (ort: OrtModule, numbers: readonly number[]): number => {
  const place = ort.stackAlloc(Math.max(1, numbers.length) * ort.PTR_SIZE)
  for (const [i, number] of numbers.entries()) ort.setValue(place + i * ort.PTR_SIZE, number, '*')
  return place
}

/** Reads addresses or sizes. */
export const readList = (ort: OrtModule, place: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => ort.getValue(place + i * ort.PTR_SIZE, '*'))
