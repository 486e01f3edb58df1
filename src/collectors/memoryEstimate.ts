/** How much memory a training step will take, before it is taken. */
import * as E from 'fp-ts/lib/Either.js'
import { laneWeights } from '../modules/generation/generator.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { CAPACITY_STEP } from '../modules/transformer/pack.js'
import { parameterCount } from '../modules/transformer/params.js'
import type { Recompute } from './stepGradients.js'

/** Rows of one update. */
export interface EstimatedBatch {
  readonly prompts: number
  /** Completions of each prompt. */
  readonly group: number
  readonly promptTokens: number
  readonly completionTokens: number
}

export interface MemoryRequest {
  readonly config: DecoderConfig
  /** Numbers that are trained: all of the model, or those of an adapter beside it. */
  readonly trained: number
  /** Numbers that the optimizer keeps for each that is trained: 2 for AdamW, 1 for Lion, 0 for SGD without momentum. */
  readonly stateNumbers: number
  readonly batch: EstimatedBatch
  readonly microBatchTokens: number
  readonly recompute: Recompute
  /** Threads with models of their own beside this one: workers, and one that samples ahead. Default 0. */
  readonly threads?: number
}

/** Bytes by what they are for. */
export interface MemoryEstimate {
  /** Of the model, and of what is trained beside it. */
  readonly weights: number
  readonly gradients: number
  /** What the optimizer keeps, and the weights, before and after an update, the old ones until they are collected. */
  readonly optimizer: number
  /** What the layers keep for the gradient. */
  readonly activations: number
  /** Scores of the vocabulary, their exponentials and gradients. */
  readonly logits: number
  /** While completions are sampled: keys and values, and the weights that are part of the compiled step of long ones. */
  readonly cache: number
  /** Node, the native library, tokenizer and graphs. */
  readonly program: number
  /** Other threads: the same again, with weights and their gradients. Micro-batches are shared out: together they take no more. */
  readonly threads: number
  /** At the highest: sampling and learning take turns. */
  readonly total: number
}

const FLOAT = 4

/** What a process without a model takes. */
const PROGRAM = 200 * 2 ** 20

/** What a thread with a model takes beside that: a run of the shipped model had peaks of 1.22, 1.71 and 1.85 GiB with one, two and three. */
const THREAD = 300 * 2 ** 20

/** Copies of the logits that are alive at once: raw, at the temperature, exponentials, gradient. */
const LOGIT_COPIES = 5

/** Values of one layer in the backward pass for each that its forward pass keeps. */
const BACKWARD = 2

/** Parts of a graph's values that are held at the highest: some are written in place, and a graph that keeps its memory holds more. */
const RETURNED = 0.9
const KEPT = 1.6

/** Where one value of a run is larger, the engine lets its graph keep the memory. */
const KEPT_FROM = 16 * 2 ** 20

/** Copies of the weights while a step is compiled that they are part of: 41 million of them took 410 MiB more. */
const CONSTANT_WEIGHTS = 2.6

/** Numbers that are alive while all completions of a batch are sampled. */
const sampledNumbers = ({ config, batch }: MemoryRequest): number => {
  const { layers, keyValueHeads, headSize } = config
  const places = padded(batch.promptTokens) + batch.group * padded(batch.completionTokens)
  const isConstant = laneWeights(config, batch.completionTokens) === 'constant'
  return (
    2 * layers * keyValueHeads * headSize * batch.prompts * places +
    (isConstant ? CONSTANT_WEIGHTS * parameterCount(config) : 0)
  )
}

/** Numbers for each that is trained: weight and state as they are before an update, after it, and until they are collected, as measured. */
const replaced = (stateNumbers: number): number => (8 * (1 + stateNumbers)) / 3

const padded = (tokens: number): number => Math.ceil(Math.max(1, tokens) / CAPACITY_STEP) * CAPACITY_STEP

/** Numbers that one layer's forward pass makes of a token, without those of attention. */
const layerWidth = (config: DecoderConfig): number => {
  const { hiddenSize, intermediateSize, heads, keyValueHeads, headSize, feedForward } = config
  const inner = (feedForward.kind === 'gated' ? 3 : 2) * intermediateSize
  return 6 * hiddenSize + (3 * heads + 3 * keyValueHeads) * headSize + inner
}

/** Numbers of the scores of one layer's attention, and of their exponentials. */
const attentionWeights = ({ heads }: DecoderConfig, run: EstimatedBatch): number => {
  const { prompts, group, promptTokens: p, completionTokens: c } = run
  return 2 * heads * prompts * (p * p + group * c * (p + c))
}

/** Bytes that a graph of a run holds for each byte of its values. */
const heldPart = ({ config, recompute }: MemoryRequest, run: EstimatedBatch): number => {
  if (recompute === 'layers') return RETURNED
  const completions = run.prompts * run.group * run.completionTokens
  const tokens = run.prompts * run.promptTokens + completions
  const largest = Math.max(completions * config.vocabularySize, tokens * config.intermediateSize)
  return FLOAT * largest > KEPT_FROM ? KEPT : RETURNED
}

/** The part of a batch that is computed in one run, with its padding. */
const oneRun = ({ batch, microBatchTokens }: MemoryRequest): EstimatedBatch => {
  const [promptTokens, completionTokens] = [padded(batch.promptTokens), padded(batch.completionTokens)]
  const fitting = Math.floor(microBatchTokens / (promptTokens + batch.group * completionTokens))
  return { prompts: Math.min(batch.prompts, Math.max(1, fitting)), group: batch.group, promptTokens, completionTokens }
}

/**
 * Bytes that training will take, by part. A sum of tensors whose sizes are known, with what the allocator adds as it was measured.
 *
 * Cost     O(layers).
 * Source   `npm run bench:memory` compares it with the peak of real steps: 1.00 to 1.06 times as much at three sizes where everything is
 *          trained and nothing computed again.
 */
export const memoryEstimate = (request: MemoryRequest): MemoryEstimate => {
  const { config, trained, stateNumbers, recompute, threads = 0 } = request
  const { layers, hiddenSize, vocabularySize } = config
  const run = oneRun(request)
  const completions = run.prompts * run.group * run.completionTokens
  const tokens = run.prompts * run.promptTokens + completions
  const layer = tokens * layerWidth(config) + attentionWeights(config, run)
  const held = heldPart(request, run)
  const inside =
    recompute === 'none'
      ? held * (layers + BACKWARD) * layer
      : (1 + BACKWARD) * layer + (layers + 1) * tokens * hiddenSize
  const all = parameterCount(config)
  const parts = {
    weights: FLOAT * (trained === all ? all : all + trained),
    gradients: FLOAT * 2 * trained,
    optimizer: FLOAT * replaced(stateNumbers) * trained,
    activations: FLOAT * inside,
    logits: FLOAT * held * LOGIT_COPIES * completions * vocabularySize,
    cache: FLOAT * sampledNumbers(request),
    program: PROGRAM,
    threads: threads * (THREAD + FLOAT * (all + 2 * trained)),
  }
  const learning = parts.gradients + parts.activations + parts.logits
  const fixed = parts.program + parts.threads + parts.weights + parts.optimizer
  return { ...parts, total: fixed + Math.max(learning, parts.cache) }
}

/** A run that the machine has no room for. */
export interface MemoryFailure {
  readonly _tag: 'MemoryFailure'
  readonly neededBytes: number
  readonly availableBytes: number
  /** With what to do about it. */
  readonly reason: string
}

/**
 * Bytes as a person reads them.
 *
 * @example
 * formatBytes(3 * 2 ** 29) // '1.5 GiB'
 */
export const formatBytes = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`

/** An estimate in one sentence, its parts by size. */
export const formatEstimate = ({ total, ...parts }: MemoryEstimate): string => {
  const listed = Object.entries(parts)
    .filter(([, bytes]) => bytes > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([name, bytes]) => `${name} ${formatBytes(bytes)}`)
  return `about ${formatBytes(total)} of memory: ${listed.join(', ')}`
}

/** What would take less memory, the strongest first, among what the request does not do already. */
const waysOut = (request: MemoryRequest): readonly string[] => {
  const { config, trained, recompute, microBatchTokens, threads = 0 } = request
  const run = oneRun(request)
  return [
    ...(recompute === 'none' ? ['--recompute layers'] : []),
    ...(run.prompts > 1 ? [`a smaller --micro-batch than ${microBatchTokens}`] : []),
    ...(trained === parameterCount(config) ? ['--lora-rank 8'] : []),
    ...(threads > 0 ? ['fewer --workers'] : []),
    'a smaller --group or --max-new-tokens',
  ]
}

/** An estimate that fits into the memory there is. Errors: `Left(MemoryFailure)`, with ways out, for one that does not. */
export const requireMemory = (
  request: MemoryRequest,
  availableBytes: number,
): E.Either<MemoryFailure, MemoryEstimate> => {
  const estimate = memoryEstimate(request)
  if (estimate.total <= availableBytes) return E.right(estimate)
  const ways = waysOut(request).join(', or ')
  const reason =
    `training would take ${formatEstimate(estimate)}; there are ${formatBytes(availableBytes)}. ` +
    `Try ${ways}; or --memory ignore to go on all the same`
  return E.left({ _tag: 'MemoryFailure', neededBytes: estimate.total, availableBytes, reason })
}
