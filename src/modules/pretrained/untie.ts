/** Conversion of models with a tied output projection to models with a separate one. */
import { type HostArray, orThrow } from '@tandem-rl/base'
import { type DecoderConfig, formatConfig, parseConfig } from '../transformer/config.js'
import { HEAD } from '../transformer/params.js'

/** A decoder's config and arrays. */
interface Numbers {
  readonly config: DecoderConfig
  readonly arrays: ReadonlyMap<string, HostArray>
}

const HEAD_WEIGHT = `${HEAD}.weight`

/**
 * Returns true for a model with tied embeddings whose weights have an output projection, as those
 * into which an adapter on it was merged. It computes with that projection.
 */
export const hasHeadBesideTied = (config: DecoderConfig, arrays: Pick<Numbers['arrays'], 'has'>): boolean =>
  config.tiedEmbeddings && arrays.has(HEAD_WEIGHT)

/**
 * Gives a model its own output projection, equal to the embedding, without changing its results. A
 * model that already has one keeps it. Such a checkpoint is needed for servers that keep old
 * numbers of a tied table after a reload (vLLM 0.32 on CPUs).
 *
 * Shapes   adds `lm_head.weight` `[V, D]`: the embedding's own array, not a copy.
 * Errors   throws RangeError if the embedding is missing.
 */
export const untieEmbeddings = <M extends Numbers>(model: M): M => {
  const { config, arrays } = model
  if (!config.tiedEmbeddings) return model
  const name = `${config.embedding.name}.weight`
  const table = arrays.get(HEAD_WEIGHT) ?? arrays.get(name)
  if (table === undefined) throw new RangeError(`untieEmbeddings: parameter '${name}' is missing`)
  return {
    ...model,
    config: orThrow(parseConfig({ ...formatConfig(config), tie_word_embeddings: false })),
    arrays: new Map([...arrays, [HEAD_WEIGHT, table]]),
  }
}
