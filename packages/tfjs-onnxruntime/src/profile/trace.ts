/** Reads the trace events that onnxruntime's profiler writes. */

type Tensors = readonly Readonly<Record<string, readonly number[]>>[]

/** An event of a trace, of which other fields are ignored. Durations are in microseconds. */
export interface TraceEvent {
  readonly cat: string
  readonly name: string
  readonly dur: number
  readonly args?: {
    readonly op_name?: string
    /** The type and the shape of each tensor: `[{ float: [2, 3] }]`. */
    readonly input_type_shape?: Tensors
    readonly output_type_shape?: Tensors
  }
}

/** One execution of an operator. */
export interface OperatorCall {
  readonly operator: string
  /** The shapes of inputs and outputs: `2048x128 128x384 -> 2048x384`. */
  readonly shapes: string
  readonly milliseconds: number
  /** Floating-point operations of products; 0 for other operators. */
  readonly operations: number
  /** Bytes of all inputs and outputs, each counted once. */
  readonly bytes: number
}

/** One run of a session. */
export interface SessionCall {
  readonly operators: readonly OperatorCall[]
  /** From the first operator to the last one, including what onnxruntime does between them. */
  readonly innerMs: number
}

/** A run with its time as JavaScript sees it, which includes handing over feeds and results. */
export type ProfiledCall = SessionCall & { readonly outerMs: number }

const BYTES: Readonly<Record<string, number>> = { float: 4, int32: 4, int64: 8, bool: 1, float16: 2, double: 8 }

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1)

const bytesOf = (tensors: Tensors): number =>
  tensors
    .flatMap((tensor) => Object.entries(tensor))
    .reduce((sum, [type, shape]) => sum + (BYTES[type] ?? 4) * sizeOf(shape), 0)

const shapesOf = (tensors: Tensors): readonly (readonly number[])[] =>
  tensors.flatMap((tensor) => Object.values(tensor))

const PRODUCTS = ['Gemm', 'FusedGemm', 'MatMul', 'FusedMatMul', 'TransposeMatMul', 'FusedMatMulActivation']

/** Returns the inner size of a product, by the first factor, which may be transposed. */
const innerSize = (a: readonly number[], result: readonly number[]): number =>
  ((a.at(-1) ?? 1) * (a.at(-2) ?? 1)) / (result.at(-2) ?? 1)

/** Returns the bytes of a second factor that is a constant, which traces leave out. */
const constantBytes = (operator: string, inputs: Tensors, outputs: Tensors): number => {
  const [[a, ...others], [result]] = [shapesOf(inputs), shapesOf(outputs)]
  const isGiven = others.some((shape) => shape.length > 1)
  if (!PRODUCTS.includes(operator) || isGiven || a === undefined || result === undefined) return 0
  return 4 * innerSize(a, result) * (result.at(-1) ?? 1)
}

/** Counts those of attention `[B, heads, T, H]`: products of queries with keys, and with values. */
const attentionOperations = (queries: readonly number[], keys: readonly number[], past: number): number =>
  4 * sizeOf(queries) * ((keys.at(-2) ?? 0) + past)

const operationsOf = (operator: string, inputs: Tensors, outputs: Tensors): number => {
  const [a, b] = shapesOf(inputs)
  const [result] = shapesOf(outputs)
  if (a === undefined || result === undefined) return 0
  // Two for each element of the result and each place of the inner axis.
  if (PRODUCTS.includes(operator)) return 2 * sizeOf(result) * innerSize(a, result)
  return operator === 'Attention' && b !== undefined ? attentionOperations(a, b, shapesOf(inputs)[4]?.at(-2) ?? 0) : 0
}

const shapesText = (inputs: Tensors, outputs: Tensors): string => {
  const side = (tensors: Tensors): string =>
    shapesOf(tensors)
      .map((shape) => shape.join('x') || '1')
      .join(' ')
  return `${side(inputs)} -> ${side(outputs)}`
}

const operatorCall = ({ args = {}, dur }: TraceEvent): OperatorCall => {
  const { op_name: operator = 'unknown', input_type_shape: inputs = [], output_type_shape: outputs = [] } = args
  return {
    operator,
    shapes: shapesText(inputs, outputs),
    milliseconds: dur / 1000,
    operations: operationsOf(operator, inputs, outputs),
    bytes: bytesOf(inputs) + bytesOf(outputs) + constantBytes(operator, inputs, outputs),
  }
}

/** Groups a session's events into its runs, in order. Each run ends with an event `model_run`. */
export const readCalls = (events: readonly TraceEvent[]): readonly SessionCall[] => {
  const calls: SessionCall[] = []
  let operators: OperatorCall[] = []
  for (const event of events) {
    if (event.cat === 'Node' && event.name.endsWith('_kernel_time')) operators.push(operatorCall(event))
    if (event.cat === 'Session' && event.name === 'model_run') {
      calls.push({ operators, innerMs: event.dur / 1000 })
      operators = []
    }
  }
  return calls
}
