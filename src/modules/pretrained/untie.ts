/** Models whose output projection is the embedding, as models that have one of their own. */
import { orThrow } from '../../core/failure.js'
import type { HostArray } from '../../data/codecs/safetensors.js'
import { formatConfig, parseConfig } from '../transformer/config.js'
import type { Pretrained } from './pretrained.js'

/** A decoder's numbers, and how they are put together. */
type Numbers = Pick<Pretrained, 'config' | 'arrays'>

/**
 * The same model with an output projection of its own, which equals the embedding: it computes the same. A model that has one already is
 * given back as it is. Servers that go on with old numbers of a shared table after a reload (vLLM 0.32 on CPUs) take such a checkpoint.
 *
 * Shapes   adds `lm_head.weight` `[V, D]`: the array of the embedding itself, not a copy.
 * Errors   throws RangeError if the embedding is missing.
 */
export const untieEmbeddings = <M extends Numbers>(model: M): M => {
  const { config, arrays } = model
  if (!config.tiedEmbeddings) return model
  const name = `${config.embedding.name}.weight`
  const table: HostArray | undefined = arrays.get(name)
  if (table === undefined) throw new RangeError(`untieEmbeddings: parameter '${name}' is missing`)
  return {
    ...model,
    config: orThrow(parseConfig({ ...formatConfig(config), tie_word_embeddings: false })),
    arrays: new Map([...arrays, ['lm_head.weight', table]]),
  }
}
