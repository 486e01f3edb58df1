/** The projections of a decoder that an adapter can change. */

import type { Projection } from '../transformer/config/description.js'
import type { DecoderConfig } from '../transformer/config.js'

/**
 * Returns projections by the complete path of their module, in the order of the layers, without the
 * output projection.
 *
 * Cost     O(layers); no arrays are made.
 */
export const projections = (config: DecoderConfig): ReadonlyMap<string, Projection> => {
  const { attention, feedForward, layerName } = config
  const parts = [...attention.inputs, attention.output, ...feedForward.inputs, feedForward.output]
  const paths = Array.from({ length: config.layers }, (_, i) => `${layerName}.${i}`)
  return new Map(
    paths.flatMap((path) => parts.map((part) => [`${path}.${part.name}`, { ...part, name: `${path}.${part.name}` }])),
  )
}

/** Returns the layout in which a model stores all its projections. */
export const storedLayout = ({ attention }: DecoderConfig): Projection['layout'] => attention.output.layout
