/** The linear maps of a decoder that an adapter can change. */

import type { Projection } from '../transformer/config/description.js'
import type { DecoderConfig } from '../transformer/config.js'

/**
 * Projections by the whole path of their module, in the order of the layers: all but the one onto the vocabulary.
 *
 * Cost     O(layers); no numbers are made.
 */
export const projections = (config: DecoderConfig): ReadonlyMap<string, Projection> => {
  const { attention, feedForward, layerName } = config
  const parts = [...attention.inputs, attention.output, ...feedForward.inputs, feedForward.output]
  const paths = Array.from({ length: config.layers }, (_, i) => `${layerName}.${i}`)
  return new Map(
    paths.flatMap((path) => parts.map((part) => [`${path}.${part.name}`, { ...part, name: `${path}.${part.name}` }])),
  )
}

/** How a model stores its projections: all alike. */
export const storedLayout = ({ attention }: DecoderConfig): Projection['layout'] => attention.output.layout
