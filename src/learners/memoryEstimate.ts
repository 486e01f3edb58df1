/** Estimates the memory of a training step in advance. */
import * as E from 'fp-ts/lib/Either.js'
import { stepWeights } from '../modules/generation/generator.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { BACKWARD_CHUNKS, chunkRows } from '../modules/transformer/headScores.js'
import { CAPACITY_STEP } from '../modules/transformer/pack.js'
import { parameterCount } from '../modules/transformer/params.js'
import { updatesWhole } from './steps/lossStep.js'
import type { Recompute } from './steps/stepGradients.js'

/** The rows of one update. */
export interface EstimatedBatch {
  readonly prompts: number
  /** Completions per prompt. */
  readonly group: number
  readonly promptTokens: number
  readonly completionTokens: number
}

export interface MemoryRequest {
  readonly config: DecoderConfig
  /** Number of trained parameters: all of the model, or those of an adapter. */
  readonly trained: number
  /** Optimizer state per trained parameter: 2 for AdamW, 1 for Lion, 0 for SGD without momentum. */
  readonly stateNumbers: number
  readonly batch: EstimatedBatch
  readonly microBatchTokens: number
  readonly recompute: Recompute
  /** Further threads with their own models: workers, and an asynchronous sampler. Default 0. */
  readonly threads?: number
}

/** Estimated bytes, by purpose. */
export interface MemoryEstimate {
  /** Weights of the model, and of an adapter. */
  readonly weights: number
  readonly gradients: number
  /** Trained weights and optimizer state, and what an update needs to replace them. */
  readonly optimizer: number
  /** Activations kept for the backward pass. */
  readonly activations: number
  /** Logits, their exponentials and gradients. */
  readonly logits: number
  /**
   * The KV cache during sampling, and the weights in the compiled decoding step of long
   * completions.
   */
  readonly cache: number
  /** Node, the native library, the tokenizer and graphs. */
  readonly program: number
  /**
   * Programs, weights and gradients of other threads. Activations are divided among all threads.
   */
  readonly threads: number
  /** The peak. Sampling and training alternate, so only the larger of both counts. */
  readonly total: number
}

const FLOAT = 4

/** Memory of a process with a tokenizer, without a model. */
const PROGRAM = 240 * 2 ** 20

/**
 * Additional memory per thread. Measured peaks with the shipped model: 1.22, 1.71, 1.85 GiB with 1,
 * 2, 3.
 */
const THREAD = 300 * 2 ** 20

/** Arrays of the logits of a chunk that are alive at once: raw, scaled, exponentials, gradients. */
const LOGIT_COPIES = 5

/** The same in the chunks for the gradient of the head. */
const BACKWARD_LOGIT_COPIES = 3

/** Gradients of the head: of the chosen tokens, of all tokens, and their sum. */
const HEAD_GRADIENTS = 3

/** Values in a layer's backward pass per value kept by its forward pass. */
const BACKWARD = 2

/**
 * Peak share of a graph's values. Some values are written in place; a graph that keeps its memory
 * holds more.
 */
const RETURNED = 0.9
const KEPT = 1.25

/** Size of a value above which the engine lets the graph keep its memory. */
const KEPT_FROM = 16 * 2 ** 20

/**
 * Copies of constant weights that a compiled step holds. Measured: 1.5 of 135 and of 494 million
 * weights.
 */
const CONSTANT_WEIGHTS = 1.6

/** Count of numbers that are alive while all completions of a batch are sampled. */
const sampledNumbers = ({ config, batch }: MemoryRequest): number => {
  const { layers, keyValueHeads, headSize } = config
  const places = padded(batch.promptTokens) + batch.group * padded(batch.completionTokens)
  const isConstant = stepWeights(config, batch.completionTokens) === 'constant'
  return (
    2 * layers * keyValueHeads * headSize * batch.prompts * places +
    (isConstant ? CONSTANT_WEIGHTS * parameterCount(config) : 0)
  )
}

/** Numbers that an update holds: weights and state, the new ones, and uncollected ones. */
const updatedNumbers = ({ config, trained, stateNumbers }: MemoryRequest): number => {
  const numbers = 1 + stateNumbers
  if (updatesWhole(trained)) return ((8 * numbers) / 3) * trained
  const largest = config.vocabularySize * config.hiddenSize // replaced at once
  return numbers * (trained + Math.min(trained, largest)) + trained // and copies of results
}

/** Logits that are alive at once, and gradients of the head before they are added. */
const logitNumbers = ({ config, trained }: MemoryRequest, rows: number): number => {
  const { vocabularySize, hiddenSize } = config
  const chunk = chunkRows(vocabularySize)
  const forward = LOGIT_COPIES * Math.min(rows, chunk) * vocabularySize
  if (trained < parameterCount(config) || rows <= chunk) return forward
  const backward = BACKWARD_LOGIT_COPIES * Math.min(rows, BACKWARD_CHUNKS * chunk) * vocabularySize
  return Math.max(forward, backward) + HEAD_GRADIENTS * vocabularySize * hiddenSize
}

const padded = (tokens: number): number => Math.ceil(Math.max(1, tokens) / CAPACITY_STEP) * CAPACITY_STEP

/** Numbers per token in one layer's forward pass, without attention scores. */
const layerWidth = (config: DecoderConfig): number => {
  const { hiddenSize, intermediateSize, heads, keyValueHeads, headSize, feedForward } = config
  const inner = (feedForward.kind === 'gated' ? 3 : 2) * intermediateSize
  return 6 * hiddenSize + (3 * heads + 3 * keyValueHeads) * headSize + inner
}

/** Numbers in one layer's attention scores and their exponentials. */
const attentionWeights = ({ heads }: DecoderConfig, run: EstimatedBatch): number => {
  const { prompts, group, promptTokens: p, completionTokens: c } = run
  return 2 * heads * prompts * (p * p + group * c * (p + c))
}

/** Bytes held by a graph per byte of its values. */
const heldPart = ({ config, recompute }: MemoryRequest, run: EstimatedBatch): number => {
  if (recompute === 'layers') return RETURNED
  const completions = run.prompts * run.group * run.completionTokens
  const tokens = run.prompts * run.promptTokens + completions
  const scored = Math.min(completions, chunkRows(config.vocabularySize))
  const largest = Math.max(scored * config.vocabularySize, tokens * config.intermediateSize)
  return FLOAT * largest > KEPT_FROM ? KEPT : RETURNED
}

/** Returns the part of a batch that is computed in one run, with padding. */
const oneRun = ({ batch, microBatchTokens }: MemoryRequest): EstimatedBatch => {
  const [promptTokens, completionTokens] = [padded(batch.promptTokens), padded(batch.completionTokens)]
  const fitting = Math.floor(microBatchTokens / (promptTokens + batch.group * completionTokens))
  return { prompts: Math.min(batch.prompts, Math.max(1, fitting)), group: batch.group, promptTokens, completionTokens }
}

/**
 * Estimates the memory of training in bytes, by part: the known sizes of tensors, plus measured
 * overhead of the allocator.
 *
 * Cost     O(layers).
 * Source   `npm run bench -- memory` compares it with the peak of a learner's steps: 1.04 to 1.09
 *          times the peak in six cases, 1.03 to 1.24 times in six with recomputed layers. With
 *          SmolLM2-135M 1.07 times for an adapter, 0.96 for all weights.
 */
export const memoryEstimate = (request: MemoryRequest): MemoryEstimate => {
  const { config, trained, recompute, threads = 0 } = request
  const { layers, hiddenSize } = config
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
    optimizer: FLOAT * updatedNumbers(request),
    activations: FLOAT * inside,
    logits: FLOAT * held * logitNumbers(request, completions),
    cache: FLOAT * sampledNumbers(request),
    program: PROGRAM,
    threads: threads * (THREAD + FLOAT * (2 * all + 2 * trained)), // the policy, the reference, gradients
  }
  const learning = parts.gradients + parts.activations + parts.logits
  const fixed = parts.program + parts.threads + parts.weights + parts.optimizer
  return { ...parts, total: fixed + Math.max(learning, parts.cache) }
}

/** A run that needs more memory than available. */
export interface MemoryFailure {
  readonly _tag: 'MemoryFailure'
  readonly neededBytes: number
  readonly availableBytes: number
  /** The estimate and suggestions. */
  readonly reason: string
}

/**
 * Formats a number of bytes.
 *
 * @example
 * formatBytes(3 * 2 ** 29) // '1.5 GiB'
 */
export const formatBytes = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`

/** Formats an estimate as one sentence, with its parts by size. */
export const formatEstimate = ({ total, ...parts }: MemoryEstimate): string => {
  const listed = Object.entries(parts)
    .filter(([, bytes]) => bytes > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([name, bytes]) => `${name} ${formatBytes(bytes)}`)
  return `about ${formatBytes(total)} of memory: ${listed.join(', ')}`
}

/** Lists settings that reduce memory and are not used yet, the most effective first. */
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

/**
 * Estimates memory. Returns `Left(MemoryFailure)` with suggestions if it exceeds the available
 * memory.
 */
export const requireMemory = (
  request: MemoryRequest,
  availableBytes: number,
): E.Either<MemoryFailure, MemoryEstimate> => {
  const estimate = memoryEstimate(request)
  if (estimate.total <= availableBytes) return E.right(estimate)
  const ways = waysOut(request).join(', or ')
  const reason =
    `training would take ${formatEstimate(estimate)}; only ${formatBytes(availableBytes)} are available. ` +
    `Try ${ways}; or --memory ignore to continue anyway`
  return E.left({ _tag: 'MemoryFailure', neededBytes: estimate.total, availableBytes, reason })
}
