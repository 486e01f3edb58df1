/** Calls of compiled functions of weights and arrays. Weights are arguments or constants. */
import { flatten, type HostArray, type Tree, unflatten } from '@tandem-rl/base'
import { adoptTensor, type Hosted, type Jitted, type Prepared } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { Params } from '../../transformer/params.js'
import type { StepWeights } from './modelRunner.js'

/** The arguments that change from call to call, in host memory. */
export type CallArrays<Input> = Hosted<Omit<Input, 'params'>>

export interface CompiledCalls<Input, Output> {
  /** Calls the function with arrays of one structure, which `kind` names. */
  readonly run: (kind: string, params: Params, given: CallArrays<Input>) => Hosted<Output>
  /** Frees graphs with constant weights. Later calls compile again. */
  readonly release: () => void
}

const isHostArray = (value: unknown): value is HostArray =>
  typeof value === 'object' && value !== null && 'data' in value && ArrayBuffer.isView(value.data)

/** Makes calls of `graph`. Each kind is prepared once for the weights of the last call. */
export const compiledCalls = <Input extends { readonly params: Params }, Output>(
  graph: Jitted<Input, Output>,
  weights: StepWeights,
): CompiledCalls<Input, Output> => {
  const prepared = new Map<string, Prepared<Output>>()
  let known: Params | undefined
  const release = (): void => {
    for (const { release } of prepared.values()) release()
    prepared.clear()
    known = undefined
  }
  const flat = (given: CallArrays<Input>) => flatten<HostArray>(given as Tree<HostArray>, isHostArray) // records and lists of arrays
  const prepare = (params: Params, given: CallArrays<Input>): Prepared<Output> =>
    scope(() => {
      const { shape, leaves } = flat(given)
      const fed = leaves.map(({ data, shape }) =>
        adoptTensor(data, shape, data instanceof Float32Array ? 'float32' : 'int32'),
      )
      const input = { ...(unflatten(shape, fed) as Omit<Input, 'params'>), params } as Input // the tree of `given`
      return graph.prepare(input, { fed, constants: weights === 'constant' ? Object.values(params) : [] })
    })
  return {
    run: (kind, params, given) => {
      if (known !== params) release()
      known = params
      const call = prepared.get(kind) ?? prepare(params, given)
      prepared.set(kind, call)
      return call(flat(given).leaves)
    },
    release,
  }
}
