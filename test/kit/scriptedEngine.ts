/** The engine over the toy model: what tests of engines, of the worker and of the server run on. */
import { orThrow } from '@tandem-rl/base'
import { type AdapterWeights, textTokenizer, trainBytePairEncoding, type WeightSource } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { left, right } from 'fp-ts/lib/Either.js'
import { type LLMEngineOptions, type LocalLLMEngine, makeLLMEngine } from '../../src/modules/generation/llmEngine.js'
import { type ScriptedRunner, scriptedRunner, toyParams } from './scriptedRunner.js'

/** Ids up to here are printable characters of the byte-level tokenizer. */
export const TOY_VOCABULARY = 64

/** Ends completions of the toy. */
export const TOY_END = 63

/** Every byte is a token: id 0 is `!`. */
export const byteTokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))

/** The toy's one parameter, as it is sent. */
export const toyWeights = (shift: number): WeightSource => ({
  _tag: 'Arrays',
  arrays: new Map([['shift', { shape: [], data: Float32Array.of(shift) }]]),
})

/** An adapter of the toy: it adds `alpha` to the parameters. */
export const toyAdapter = (alpha: number): AdapterWeights => ({ rank: 1, alpha, tensors: new Map() })

const readToyWeights: LLMEngineOptions['readWeights'] = (source) => async () => {
  const shift = source._tag === 'Arrays' ? source.arrays.get('shift')?.data[0] : undefined
  return shift !== undefined && Number.isFinite(shift)
    ? right(toyParams(shift))
    : left({ _tag: 'WeightFailure', receiver: 'toy', reason: 'shift must be a finite number' })
}

const withToyAdapter: LLMEngineOptions['withAdapter'] = (base, { alpha }) =>
  Number.isFinite(alpha)
    ? right({ ...base, adapter: tf.scalar(alpha) })
    : left({ _tag: 'WeightFailure', receiver: 'toy', reason: `alpha must be finite, got ${alpha}` })

/** The engine and the model in it. */
export interface ScriptedEngine {
  readonly engine: LocalLLMEngine
  readonly runner: ScriptedRunner
}

export type ScriptedEngineOptions = Partial<Omit<LLMEngineOptions, 'runner' | 'params'>> & {
  readonly runner?: ScriptedRunner
  /** The parameter that it begins with. */
  readonly shift?: number
}

/** Makes an engine over the toy. */
export const scriptedEngine = (options: ScriptedEngineOptions = {}): ScriptedEngine => {
  const { runner = scriptedRunner({ vocabularySize: TOY_VOCABULARY }), shift = 0, limits, ...rest } = options
  const params = own(toyParams(shift))
  const engine = makeLLMEngine({
    runner,
    params: params.value,
    model: { version: 1, endTokens: [TOY_END], tokenizer: byteTokenizer },
    readWeights: readToyWeights,
    withAdapter: withToyAdapter,
    limits: { ...(options.memory === undefined && { memoryBytes: 2 ** 20 }), ...limits },
    ...rest,
  })
  params.release()
  return { engine, runner }
}
