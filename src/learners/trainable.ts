/** The weights of a learner: their initial values, the trained subset, and their files. */
import { child, type Files, type HostArray, type Key, type ModelFailure } from '@tandem-rl/base'
import { liveMachine } from '@tandem-rl/base/host'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { NamedTensors } from '../data/weights.js'
import { type Adapter, initialLora, loraScalings } from '../modules/lora/adapter.js'
import {
  adaptedProjections,
  adapterNumbers,
  DEFAULT_LORA,
  type LoraConfig,
  loraConfig,
} from '../modules/lora/config.js'
import { adapterFiles, loadAdapter } from '../modules/lora/peft.js'
import { storedLayout } from '../modules/lora/projections.js'
import { hostArrays, loadWeights, makeParams, type Pretrained } from '../modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../modules/pretrained/saveModel.js'
import { sharedParams } from '../modules/pretrained/sharedParams.js'
import {
  initialValueHead,
  loadValueHead,
  valueHeadFiles,
  valueHeadShapes,
  withoutValueHead,
} from '../modules/valueHead.js'
import { formatBytes } from './memoryEstimate.js'

/**
 * An adapter to train instead of the model's own weights: the settings of a new one, or an existing
 * one.
 */
export interface LoraOptions extends Partial<LoraConfig> {
  /** Continues this adapter. Its own settings apply. */
  readonly adapter?: Adapter
  /** Name or folder of the base model, recorded in the adapter's files. */
  readonly baseModel?: string
}

/** The trained weights, and the frozen ones. */
interface StartWeights {
  readonly trained: NamedTensors
  readonly frozen: NamedTensors
}

/** The weights of a learner, and their storage. */
export interface Trainable {
  /** The settings of the adapter, or `null` if all weights are trained. */
  readonly lora: LoraConfig | null
  readonly start: (saved?: ReadonlyMap<string, HostArray>) => Owned<StartWeights>
  /**
   * Returns the files of the trained weights: the model's folder or the adapter's, and the value
   * head.
   */
  readonly files: (trained: NamedTensors) => Readonly<Record<string, Uint8Array | string>>
  /** Reads the files that `files` made. */
  readonly load: (folder: string, files: Files) => TE.TaskEither<ModelFailure, ReadonlyMap<string, HostArray>>
}

interface TrainableOptions {
  readonly learner: string
  readonly model: Pretrained
  readonly lora: LoraOptions | undefined
  readonly head: 'value' | 'none'
  readonly key: Key
}

/** Bytes of each number of an adapter, and of its gradient. */
const NUMBER_BYTES = 8

/**
 * Throws RangeError for settings given together with an adapter, and for settings that do not match
 * the model or the memory of the machine.
 */
const adapterOf = ({ learner, model, lora, key }: TrainableOptions): Adapter | null => {
  if (lora === undefined) return null
  const { adapter, baseModel: _, ...settings } = lora
  if (adapter !== undefined) {
    const both = Object.keys(settings)
    if (both.length > 0) throw new RangeError(`${learner}: ${both.join(', ')} cannot be set together with an adapter`)
    return adapter
  }
  const unknown = Object.keys(settings).filter((name) => !Object.hasOwn(DEFAULT_LORA, name))
  if (unknown.length > 0)
    throw new RangeError(
      `${learner}: unknown LoRA setting ${unknown.join(', ')} (the settings are ${Object.keys(DEFAULT_LORA).join(', ')})`,
    )
  const made = pipe(
    adaptedProjections(model.config, loraConfig(settings)),
    E.filterOrElseW(
      (adapted) => adapterNumbers(adapted) * NUMBER_BYTES <= liveMachine.memoryBytes(),
      (adapted) => ({
        reason: `LoRA: an adapter of rank ${loraConfig(settings).rank} takes at least ${formatBytes(adapterNumbers(adapted) * NUMBER_BYTES)} of memory, and this machine has ${formatBytes(liveMachine.memoryBytes())}: choose a smaller rank`,
      }),
    ),
    E.chainW(() => initialLora(model.config, loraConfig(settings), child(key, 'adapter'))),
  )
  if (E.isLeft(made)) throw new RangeError(`${learner}: ${made.left.reason}`)
  return made.right
}

/**
 * Returns the weights of a learner: those of a model or of an adapter, with an optional value head.
 *
 * Errors   throws RangeError for LoRA settings that do not match the model.
 */
export const trainable = (options: TrainableOptions): Trainable => {
  const { model, lora, head, key } = options
  const { config } = model
  const adapter = adapterOf(options)
  const isHead = (name: string): boolean => head === 'value' && valueHeadShapes(config).has(name)

  const headOf = (saved: ReadonlyMap<string, HostArray> | undefined): NamedTensors => {
    if (head === 'none') return {}
    const present = saved ?? model.arrays
    const stored = new Map([...present].filter(([name]) => isHead(name)))
    return stored.size > 0 ? makeParams(stored) : initialValueHead(config, child(key, 'value head'))
  }
  const bodyOf = (saved: ReadonlyMap<string, HostArray>): ReadonlyMap<string, HostArray> =>
    new Map([...saved].filter(([name]) => !isHead(name)))

  return {
    lora: adapter?.config ?? null,
    start: (saved) => {
      if (adapter === null && saved !== undefined)
        return own(scope(() => ({ trained: { ...makeParams(bodyOf(saved)), ...headOf(saved) }, frozen: {} })))
      using base = sharedParams(model)
      return own(
        scope(() => {
          if (adapter === null) return { trained: { ...base.value, ...headOf(saved) }, frozen: {} }
          const tensors = makeParams(saved === undefined ? adapter.arrays : bodyOf(saved))
          const scalings = loraScalings({ config: adapter.config, tensors })
          return { trained: { ...tensors, ...headOf(saved) }, frozen: { ...base.value, ...scalings } }
        }),
      )
    },
    files: (trained) => {
      const arrays = hostArrays(withoutValueHead(trained))
      const origin = { baseModel: lora?.baseModel ?? null, layout: storedLayout(config) }
      return {
        ...(adapter === null
          ? pretrainedFiles({ ...model, arrays })
          : adapterFiles({ config: adapter.config, arrays }, origin)),
        ...(head === 'value' && valueHeadFiles(trained)),
      }
    },
    load: (folder, files) =>
      pipe(
        adapter === null
          ? pipe(
              loadWeights(folder, files),
              TE.map(({ arrays }) => arrays),
            )
          : pipe(
              loadAdapter(folder, config, files),
              TE.map((loaded) => loaded.adapter.arrays),
            ),
        TE.chain((arrays: ReadonlyMap<string, HostArray>) =>
          head === 'none'
            ? TE.right(arrays)
            : pipe(
                loadValueHead(folder, config, files),
                TE.map((stored): ReadonlyMap<string, HostArray> => new Map([...arrays, ...stored])),
              ),
        ),
      ),
  }
}
