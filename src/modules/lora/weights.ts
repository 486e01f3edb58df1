/** Adapters in the format of engines: one rank and one scale for all modules. */
import type { ConfigFailure } from '@tandem-rl/base'
import type { AdapterWeights, PlainArray } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { checkStored } from '../../data/codecs/checkStored.js'
import { loraNames } from '../transformer/applyLora.js'
import type { DecoderConfig } from '../transformer/config.js'
import { type Adapter, adapterModules, adapterShapes } from './adapter.js'
import { adaptedProjections, loraConfig, scalingOf } from './config.js'

/** Pads a matrix with rows of zeros at the bottom or columns of zeros on the right. */
const padded = ({ shape, data }: PlainArray, to: readonly [number, number]): PlainArray => {
  const [rows, columns] = shape as readonly [number, number] // a matrix of an adapter
  if (rows === to[0] && columns === to[1]) return { shape, data }
  const wide = new Float32Array(to[0] * to[1])
  for (let i = 0; i < rows; i++) wide.set(data.subarray(i * columns, (i + 1) * columns), i * to[1])
  return { shape: to, data: wide }
}

const scaled = ({ shape, data }: PlainArray, factor: number): PlainArray =>
  factor === 1 ? { shape, data } : { shape, data: data.map((x) => x * factor) }

/**
 * Converts an adapter for an engine. Modules of a lower rank than the highest are padded with
 * zeros. Modules with another scale than the first have the difference multiplied into `B`. Neither
 * changes the adapter's results.
 *
 * Errors   throws RangeError for an adapter without modules.
 * Effects  none. Arrays that need no change are shared with the adapter.
 */
export const adapterWeights = ({ config, arrays }: Adapter): AdapterWeights => {
  const modules = adapterModules(arrays.keys()).map((module) => {
    const { a, b } = loraNames(module)
    const [down, up] = [arrays.get(a), arrays.get(b)]
    if (down === undefined || up === undefined)
      throw new RangeError(`adapterWeights: '${module}' lacks one of its two matrices`)
    const rank = down.shape[0]! // [R, I]
    return { names: { a, b }, down, up, rank, scaling: scalingOf(config, module, rank) }
  })
  const [first] = modules
  if (first === undefined) throw new RangeError('adapterWeights: the adapter has no module')
  const rank = Math.max(...modules.map((module) => module.rank))
  return {
    rank,
    alpha: first.scaling * rank,
    tensors: new Map(
      modules.flatMap(({ names, down, up, scaling }) => [
        [names.a, padded(down, [rank, down.shape[1]!])] as const, // [R, I]
        [names.b, padded(scaled(up, scaling / first.scaling), [up.shape[0]!, rank])] as const, // [O, R]
      ]),
    ),
  }
}

/**
 * Checks the adapter weights that an engine received, and returns the adapter.
 *
 * Errors   `Left(ConfigFailure)` that lists all problems: no module, one that the model does not
 *          have, a tensor that is missing, extra, of another shape or not finite, an invalid rank
 *          or alpha.
 */
export const adapterFromWeights = (
  config: DecoderConfig,
  { rank, alpha, tensors }: AdapterWeights,
): E.Either<ConfigFailure, Adapter> => {
  const lora = loraConfig({ rank, alpha, targetModules: adapterModules(tensors.keys()) })
  const stored = new Map([...tensors].map(([name, array]) => [name, { type: 'F32' as const, ...array }]))
  return pipe(
    adaptedProjections(config, lora),
    E.chain((adapted) => checkStored(adapterShapes(adapted), stored)),
    E.map((arrays) => ({ config: lora, arrays })),
  )
}
