/**
 * Gradients layer by layer, with little memory. Only the input of each layer is kept, and its
 * activations are recomputed in the backward pass (Chen et al. 2016, arXiv:1604.06174, with one
 * segment per layer).
 *
 * Within one compiled graph, a recomputation would be merged with the first computation. Each layer
 * therefore runs in its own graphs: one forward, and one for recomputation and the backward pass.
 * Layers with equal arithmetic share them, so compilation takes less time as well.
 */
import { type Jitted, jit, type ValueAndGrad, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from './config.js'
import { decoderLayer, embedTokens, finalNorm, segmentTokens } from './forward.js'
import { likeLayer, paramParts, renamedTo } from './layers.js'
import type { Params } from './params.js'
import {
  type BatchStates,
  type CompletionBatch,
  completionSegment,
  lastHidden,
  predictingStates,
  promptSegment,
} from './score.js'

/** The parts of a decoder that a loss reads. */
export interface Readout {
  /** `[P * G * Tr, D]`: see `predictingStates`. */
  readonly states: tf.Tensor
  /** Weights outside the layers: the output projection, and others that read the states. */
  readonly weights: Params
}

/** A scalar function of the decoder's last states, with auxiliary results. */
export type LossOfStates<R, X> = (readout: Readout, rest: R) => { readonly value: tf.Tensor; readonly aux: X }

/** The differentiated parameters, and the other inputs of the loss. */
interface LayerwiseInput<R> {
  readonly batch: CompletionBatch
  /** Parameters to differentiate. */
  readonly params: Params
  /** Parameters without gradients. */
  readonly frozen: Params
  readonly rest: R
}

export interface Layerwise<R, X> {
  /**
   * Computes the same as `valueAndGrad` of the whole decoder, up to rounding. The results belong to
   * the enclosing scope. `collect` takes the gradients of each part once they are known, and
   * returns those in their place.
   */
  readonly run: (input: LayerwiseInput<R>, collect?: (part: Params) => Params) => ValueAndGrad<X>
  /** Frees compiled graphs. */
  readonly release: () => void
}

/**
 * Hidden states of all positions between two layers: prompts `[P * Tp, D]`, completions
 * `[P * G * Tr, D]`.
 */
type States = BatchStates

/** The names of states among the differentiated tensors. */
const STATE = { prompt: '> prompt', completion: '> completion' } as const

const named = ({ prompt, completion }: States): Params => ({ [STATE.prompt]: prompt, [STATE.completion]: completion })

const statesIn = (tensors: Params): States => ({
  prompt: tensors[STATE.prompt]!, // from `named`
  completion: tensors[STATE.completion]!,
})

const withoutStates = (tensors: Params): Params =>
  Object.fromEntries(Object.entries(tensors).filter(([name]) => name !== STATE.prompt && name !== STATE.completion))

interface PartInput {
  readonly params: Params
  readonly frozen: Params
  readonly batch: CompletionBatch
}

interface LayerInput extends PartInput {
  readonly states: States
}

const embedded = (config: DecoderConfig, params: Params, batch: CompletionBatch): States => {
  const embed = (ids: tf.Tensor, positions: tf.Tensor): tf.Tensor =>
    embedTokens(params, config, { ids: tf.reshape(ids, [-1]), positions: tf.reshape(positions, [-1]) })
  return {
    prompt: embed(batch.promptIds, batch.promptPositions),
    completion: embed(batch.completionIds, batch.completionPositions),
  }
}

const throughLayer = (config: DecoderConfig, layer: number, { params, frozen, batch, states }: LayerInput): States => {
  const all = { ...frozen, ...params }
  const prompt = segmentTokens(config, promptSegment(batch))
  const nextPrompt = decoderLayer(all, { config, layer }, { x: states.prompt, tokens: prompt.tokens })
  // The prompt's keys and values at the index where this layer looks for them.
  const cache = Array.from({ length: layer + 1 }, () => prompt.made[0]!)
  const { tokens } = segmentTokens(config, completionSegment(batch, cache))
  return { prompt: nextPrompt, completion: decoderLayer(all, { config, layer }, { x: states.completion, tokens }) }
}

/** Computes `sum(x * dx)` over both states, whose gradient is the backward pass of `dx`. */
const pairing = (states: States, gradient: States): tf.Tensor =>
  tf.add(tf.sum(tf.mul(states.prompt, gradient.prompt)), tf.sum(tf.mul(states.completion, gradient.completion)))

interface BackwardInput extends LayerInput {
  /** The gradient of the layer's output. */
  readonly gradient: States
}

/** Computes gradients of a layer's parameters and of its input. */
const backThrough =
  (config: DecoderConfig, layer: number) =>
  ({ params, states, gradient, ...input }: BackwardInput): Params =>
    valueAndGrad({ ...params, ...named(states) }, (all) => ({
      value: pairing(
        throughLayer(config, layer, { ...input, params: withoutStates(all), states: statesIn(all) }),
        gradient,
      ),
      aux: {},
    })).grads

/** Computes gradients of a layer's parameters only, for the lowest trained layer. */
const backInto =
  (config: DecoderConfig, layer: number) =>
  ({ params, gradient, ...input }: BackwardInput): Params =>
    valueAndGrad(params, (all) => ({
      value: pairing(throughLayer(config, layer, { ...input, params: all }), gradient),
      aux: {},
    })).grads

interface HeadInput<R> extends LayerInput {
  readonly rest: R
}

/** Computes the loss, and gradients of the head's parameters and of the last layer's output. */
const throughHead =
  <R, X>(config: DecoderConfig, loss: LossOfStates<R, X>) =>
  ({ params, frozen, batch, states, rest }: HeadInput<R>): ValueAndGrad<X> =>
    valueAndGrad({ ...params, ...named(states) }, (all) => {
      const weights = { ...frozen, ...withoutStates(all) }
      const { prompt, completion } = statesIn(all)
      const last = {
        prompt: finalNorm(weights, config, lastHidden(prompt, batch.promptIds.shape[0]!)), // [P, Tp]
        completion: finalNorm(weights, config, completion),
      }
      return loss({ states: predictingStates(config, { batch, states: last }), weights }, rest)
    })

interface EmbeddingInput extends PartInput {
  readonly gradient: States
  /** Gradients of the head's weights, some of which may be those of the embedding. */
  readonly above: Params
}

/** Options of graphs that free their memory between runs instead of keeping it. */
const SPARING = { memory: 'returned' } as const

interface LayerGraphs {
  readonly forward: Jitted<LayerInput, States>
  readonly through: Jitted<BackwardInput, Params>
  readonly into: Jitted<BackwardInput, Params>
}

const layerGraphs = (config: DecoderConfig, layer: number): LayerGraphs => ({
  forward: jit((input) => throughLayer(config, layer, input), SPARING),
  through: jit(backThrough(config, layer), SPARING),
  into: jit(backInto(config, layer), SPARING),
})

/**
 * Returns the lowest part with trained parameters: -1 for the embedding, `layers.length` if all
 * layers are frozen.
 */
const lowestTrained = ({ embedding, layers }: ReturnType<typeof paramParts>): number => {
  if (Object.keys(embedding).length > 0) return -1
  const layer = layers.findIndex((own) => Object.keys(own).length > 0)
  return layer < 0 ? layers.length : layer
}

/**
 * Makes gradients layer by layer. The forward pass keeps only the input of each layer; the backward
 * pass recomputes each layer.
 *
 * Gradients are computed only for `params`. A layer without trained parameters passes the gradient
 * through, and nothing is computed below the lowest trained layer.
 *
 * Cost     one more forward pass than `valueAndGrad` of the whole. Memory for the layers' inputs
 *          and the activations of one layer, instead of the activations of all. States between
 *          layers and gradients are copied out of the graphs.
 * Source   Chen et al. 2016, arXiv:1604.06174; `torch.utils.checkpoint` around each layer, as in
 *          Transformers' `gradient_checkpointing`.
 */
export const makeLayerwise = <R, X>(config: DecoderConfig, loss: LossOfStates<R, X>): Layerwise<R, X> => {
  const embed = jit(({ params, batch }: Pick<PartInput, 'params' | 'batch'>) => embedded(config, params, batch))
  const head = jit(throughHead(config, loss), SPARING)
  /** Adds gradients of the embedding to those that it has `above`, as the head's weights. */
  const intoEmbedding = jit(({ params, frozen, batch, gradient, above }: EmbeddingInput): Params => {
    const { grads } = valueAndGrad(params, (all) => ({
      value: pairing(embedded(config, { ...frozen, ...all }, batch), gradient),
      aux: {},
    }))
    const added = Object.entries(grads).map(([name, own]) => {
      const other = above[name]
      return [name, other === undefined ? own : tf.add(other, own)]
    })
    return Object.fromEntries(added)
  }, SPARING)
  const graphs = new Map<number, LayerGraphs>()
  const graphsOf = (layer: number): LayerGraphs => {
    const like = likeLayer(config, layer)
    const made = graphs.get(like) ?? layerGraphs(config, like)
    graphs.set(like, made)
    return made
  }

  const run: Layerwise<R, X>['run'] = ({ params, frozen, batch, rest }, collect = (part) => part) => {
    const [trained, fixed] = [paramParts(params, config), paramParts(frozen, config)]
    const weightsOf = (layer: number) => {
      const like = likeLayer(config, layer)
      return {
        params: renamedTo(trained.layers[layer]!, config, like),
        frozen: renamedTo(fixed.layers[layer]!, config, like),
        batch,
      }
    }
    const entering: States[] = [embed({ params: { ...fixed.embedding, ...trained.embedding }, batch })]
    for (let layer = 0; layer < config.layers; layer++) {
      entering.push(graphsOf(layer).forward({ ...weightsOf(layer), states: entering[layer]! })) // pushed before
    }
    const lowest = lowestTrained(trained)
    const last = entering.pop()!
    const { value, aux, grads } = head({ params: trained.head, frozen: fixed.head, batch, states: last, rest })
    discard(last)
    let gradient = statesIn(grads)
    const outer = withoutStates(grads)
    let inner: Params = {}
    for (let layer = config.layers - 1; layer >= Math.max(0, lowest); layer--) {
      const states = entering.pop()!
      const { through, into } = graphsOf(layer)
      const back = (layer > lowest ? through : into)({ ...weightsOf(layer), states, gradient })
      discard([states, gradient])
      inner = { ...inner, ...collect(renamedTo(withoutStates(back), config, layer)) }
      if (layer > lowest) gradient = statesIn(back)
    }
    const below =
      lowest < 0
        ? intoEmbedding({ params: trained.embedding, frozen: fixed.embedding, batch, gradient, above: outer })
        : {}
    const all = { ...inner, ...collect({ ...outer, ...below }) }
    return { value, aux, grads: Object.fromEntries(Object.keys(params).map((name) => [name, all[name]!])) } // each is in some part
  }

  return {
    run: (input, collect) => scope(() => run(input, collect)),
    release: () => {
      for (const each of graphs.values()) for (const graph of Object.values(each)) graph.release()
      graphs.clear()
      for (const graph of [embed, head, intoEmbedding]) graph.release()
    },
  }
}
