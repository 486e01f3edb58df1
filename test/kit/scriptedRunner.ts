/**
 * A toy language model in plain arrays, behind the interface of the real one.
 *
 * Its keys and values are the tokens themselves, with their places and the weights that they were
 * computed with. Scores depend on all of
 * them: a row that is given another one's slot, a past in another order or of another length, or
 * other weights, gives other tokens, and a place that is not where it says it is throws.
 */
import '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type {
  KeyValues,
  Lane,
  ModelRunner,
  NextToken,
  PrefillItem,
  StepRow,
} from '../../src/modules/generation/runner/modelRunner.js'
import type { Params } from '../../src/modules/transformer/params.js'

/** The parameters of the toy: one number, and one more with an adapter. */
export const toyParams = (shift: number): Params => ({ shift: tf.scalar(shift) })

/** The toy's cached values of a token. */
interface Place {
  readonly token: number
  readonly position: number
  /** The sum of the parameters that computed it. */
  readonly weights: number
}

const weightsOf = (params: Params): number =>
  Object.values(params).reduce((sum, tensor) => sum + tensor.dataSync()[0]!, 0)

const mix = (hash: number, value: number): number => {
  const x = Math.imul(hash ^ value, 0x9e3779b1)
  return (x ^ (x >>> 15)) | 0
}

/** Scores of the next token after these places, `[V]`. */
export const toyLogits = (places: readonly Place[], vocabularySize: number): Float32Array => {
  let hash = 17
  for (const [i, { token, position, weights }] of places.entries()) {
    if (position !== i) throw new Error(`the toy was given place ${position} as place ${i}`)
    hash = mix(mix(hash, token + 1), Math.round(weights * 1024))
  }
  return Float32Array.from({ length: vocabularySize }, (_, id) => ((mix(hash, id + 77) >>> 8) % 1000) / 250)
}

/** The places of a sequence that was computed with the same weights throughout. */
export const placesOf = (tokens: ArrayLike<number>, weights: number): readonly Place[] =>
  Array.from(tokens, (token, position) => ({ token, position, weights }))

const BLOCK = 8

const logSumExp = (values: readonly number[]): number => {
  const max = Math.max(...values)
  return max + Math.log(values.reduce((sum, x) => sum + Math.exp(x - max), 0))
}

/** The log-probabilities of scores. */
export const nextTokenOf = (logits: Float32Array, inverseTemperature: number): NextToken => {
  const all = Array.from(logits)
  const max = Math.max(...all)
  const masses = Array.from({ length: Math.ceil(all.length / BLOCK) }, (_, block) =>
    all.slice(block * BLOCK, (block + 1) * BLOCK).reduce((sum, x) => sum + Math.exp((x - max) * inverseTemperature), 0),
  )
  return {
    logits,
    argMax: all.indexOf(max),
    logNormalizer: logSumExp(all),
    temperedLogNormalizer: logSumExp(all.map((x) => x * inverseTemperature)),
    blockMasses: Float32Array.from(masses),
    blockSize: BLOCK,
  }
}

const keyValuesOf = (places: readonly Place[]): KeyValues => ({
  length: places.length,
  layers: [
    {
      keys: Float32Array.from(places, ({ token }) => token),
      values: Float32Array.from(places.flatMap(({ position, weights }) => [position, weights])),
    },
  ],
})

const placesIn = ({ length, layers }: KeyValues): readonly Place[] =>
  Array.from({ length }, (_, i) => ({
    token: layers[0]!.keys[i]!,
    position: layers[0]!.values[2 * i]!,
    weights: layers[0]!.values[2 * i + 1]!,
  }))

/** A runner that records its calls. */
export interface ScriptedRunner extends ModelRunner {
  /** Lanes that were made and not released. */
  readonly openLanes: () => number
  readonly isReleased: () => boolean
  /** Calls so far. */
  readonly calls: () => { readonly prefills: number; readonly steps: number; readonly promptTokens: number }
  /** The rows of each decoding step so far. */
  readonly stepSizes: () => readonly number[]
}

export interface ScriptedRunnerOptions {
  readonly vocabularySize?: number
  readonly maxLength?: number
  /** Called before each call: throws what the model is to throw. */
  readonly fault?: (call: { readonly kind: 'prefill' | 'step'; readonly tokens: readonly number[] }) => void
}

/** Bytes of a token in the toy: three float32 numbers. */
export const TOY_BYTES = 12

/** Places of a lane come in multiples of this. */
const STEP = 4

const roundUp = (n: number): number => Math.ceil(n / STEP) * STEP

/** Makes the toy. */
export const scriptedRunner = (options: ScriptedRunnerOptions = {}): ScriptedRunner => {
  const { vocabularySize = 24, maxLength = 512, fault = () => {} } = options
  const open = new Set<Lane>()
  const steps = new WeakMap<Lane, (params: Params, row: StepRow) => NextToken>()
  const stepSizes: number[] = []
  // Scores are written here, as a real runner reuses its memory: whoever keeps them longer than
  // allowed sees others.
  let lent: Float32Array[] = []
  let [isReleased, prefills, promptTokens] = [false, 0, 0]

  const lend = (logits: Float32Array): Float32Array => {
    lent.push(logits)
    return logits
  }
  const startCall = (): void => {
    if (isReleased) throw new Error('the runner was used after its release')
    for (const logits of lent) logits.fill(Number.NaN)
    lent = []
  }
  const scores = (places: readonly Place[], inverseTemperature: number): NextToken =>
    nextTokenOf(lend(toyLogits(places, vocabularySize)), inverseTemperature)

  const makeLane = (): Lane => {
    const slots = new Map<number, readonly Place[]>()
    let [slotCount, capacity] = [0, 0]
    const reserve = (rows: number, length: number): void => {
      slotCount = Math.max(slotCount, rows)
      capacity = Math.max(capacity, roundUp(length))
    }
    const at = (slot: number): readonly Place[] => {
      const places = slots.get(slot)
      if (places === undefined || !open.has(lane)) throw new Error(`slot ${slot} is not in use`)
      return places
    }
    const lane: Lane = {
      rows: () => slots.size,
      bytes: () => slotCount * capacity * TOY_BYTES,
      bytesWith: (rows, length) =>
        Math.max(slotCount, slots.size + rows) * Math.max(capacity, roundUp(length)) * TOY_BYTES,
      reserve: ({ rows, length }) => reserve(slots.size + rows, length),
      insert: (past) => {
        const slot = [...Array(slots.size + 1).keys()].find((i) => !slots.has(i))!
        const places = past.flatMap(placesIn)
        slots.set(slot, places)
        reserve(slots.size, places.length)
        return slot
      },
      remove: (slot) => {
        at(slot)
        slots.delete(slot)
      },
      length: (slot) => at(slot).length,
      keyValues: (slot, from, to) => keyValuesOf(at(slot).slice(from, to)),
      clear: () => slots.clear(),
      release: () => {
        if (!open.delete(lane)) throw new Error('the lane was released twice')
      },
    }
    open.add(lane)
    steps.set(lane, (params, { slot, token, inverseTemperature }) => {
      const places = [...at(slot), { token, position: at(slot).length, weights: weightsOf(params) }]
      slots.set(slot, places)
      reserve(slots.size, places.length)
      return scores(places, inverseTemperature)
    })
    return lane
  }

  return {
    vocabularySize,
    maxLength,
    bytesPerToken: TOY_BYTES,
    prefill: (params, items: readonly PrefillItem[]) => {
      startCall()
      fault({ kind: 'prefill', tokens: items.flatMap(({ tokens }) => [...tokens]) })
      prefills++
      return items.map(({ tokens, past, inverseTemperature, scores: wanted }) => {
        if (tokens.length === 0) throw new Error('the runner was given an empty prompt')
        promptTokens += tokens.length
        const before = past.flatMap(placesIn)
        const weights = weightsOf(params)
        const own = Array.from(tokens, (token, i) => ({ token, position: before.length + i, weights }))
        const all = [...before, ...own]
        return {
          keyValues: keyValuesOf(own),
          next: scores(all, inverseTemperature),
          logits:
            wanted === 'last'
              ? null
              : lend(
                  Float32Array.from(
                    own.flatMap((_, i) => [...toyLogits(all.slice(0, before.length + i + 1), vocabularySize)]),
                  ),
                ),
        }
      })
    },
    makeLane,
    servedWeights: { steps: 'fed', prompts: 'fed' },
    makeDecoding: () => ({
      step: (params, parts) => {
        startCall()
        const rows = parts.flatMap((part) => part.rows)
        fault({ kind: 'step', tokens: rows.map(({ token }) => token) })
        stepSizes.push(rows.length)
        return parts.flatMap(({ lane, rows }) => rows.map((row) => steps.get(lane)!(params, row)))
      },
      release: () => {},
    }),
    release: () => {
      isReleased = true
    },
    openLanes: () => open.size,
    isReleased: () => isReleased,
    calls: () => ({ prefills, steps: stepSizes.length, promptTokens }),
    stepSizes: () => stepSizes,
  }
}
