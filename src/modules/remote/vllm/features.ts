/**
 * The features of each vLLM version, as data. Probes of the server decide; the table names the
 * version that adds a missing feature.
 */

/** A release: major, minor, patch. */
export type Release = readonly [number, number, number]

/**
 * First releases of the features that the client uses.
 *
 * Source   merge dates of vLLM's repository (reference, section 11), and the source of 0.32.
 */
export const VLLM_FEATURES = {
  'token ids in answers of /v1/completions': [0, 10, 2],
  '/collective_rpc over HTTP': [0, 10, 2],
  '/inference/v1/generate': [0, 12, 0],
  '/pause and /resume': [0, 12, 0],
  'pause mode keep': [0, 16, 0],
  'reload_weights from a folder': [0, 16, 0],
  'weight transfer over HTTP': [0, 16, 0],
  'start and finish of a weight transfer': [0, 22, 0],
  '/abort_requests': [0, 26, 0],
  'a label of the weights': [0, 27, 0],
  'spans of labels in answers': [0, 32, 0],
} as const satisfies Readonly<Record<string, Release>>

export type VLLMFeature = keyof typeof VLLM_FEATURES

/**
 * Parses the release in a version text, or returns null. A suffix (`rc1`, `.dev3`, `+cpu`) is
 * ignored.
 *
 * @example
 * parseRelease('0.32.0+tandem') // [0, 32, 0]
 */
export const parseRelease = (version: string): Release | null => {
  const found = /^v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?/.exec(version)
  return found === null ? null : [Number(found[1]), Number(found[2]), Number(found[3] ?? 0)]
}

/**
 * Returns true if a release has a feature.
 *
 * @example
 * hasFeature([0, 15, 1], 'pause mode keep') // false
 */
export const hasFeature = (release: Release, feature: VLLMFeature): boolean => {
  const first: Release = VLLM_FEATURES[feature]
  const place = release.findIndex((number, i) => number !== first[i])
  return place === -1 || release[place]! > first[place]!
}

/**
 * Names the first release with a feature, for a message.
 *
 * @example
 * needed('pause mode keep') // 'pause mode keep needs vLLM 0.16.0 or newer'
 */
export const needed = (feature: VLLMFeature): string =>
  `${feature} needs vLLM ${VLLM_FEATURES[feature].join('.')} or newer`
