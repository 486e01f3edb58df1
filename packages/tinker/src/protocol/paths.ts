/**
 * Paths of checkpoints: `tinker://MODEL/weights/NAME` and `tinker://MODEL/sampler_weights/NAME`.
 */

/** `weights` can be trained on, `sampler_weights` can be sampled from. */
export type CheckpointKind = 'weights' | 'sampler_weights'

/** A checkpoint by its path. */
export interface CheckpointPath {
  readonly modelId: string
  readonly kind: CheckpointKind
  readonly name: string
}

const PART = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}'
const MODEL = '[A-Za-z0-9][A-Za-z0-9._:-]{0,127}'
const MODEL_ID = new RegExp(`^${MODEL}$`)
const PATH = new RegExp(`^tinker://(${MODEL})/(weights|sampler_weights)/(${PART})$`)
const NAME = new RegExp(`^${PART}$`)

/** Returns `true` for a name of a checkpoint: letters, digits, dots, underscores and hyphens. */
export const isCheckpointName = (name: string): boolean => NAME.test(name)

/** Returns `true` for an id of a model, which may have colons too. */
export const isModelId = (id: string): boolean => MODEL_ID.test(id)

/**
 * The parts of a path; undefined for a text that is not one.
 *
 * @example
 * parseTinkerPath('tinker://run-1/weights/last')?.name // 'last'
 */
export const parseTinkerPath = (path: string): CheckpointPath | undefined => {
  const [, modelId, kind, name] = PATH.exec(path) ?? []
  return modelId === undefined ? undefined : { modelId, kind: kind as CheckpointKind, name: name! } // by the pattern
}

/** The text of a path. */
export const formatTinkerPath = ({ modelId, kind, name }: CheckpointPath): string =>
  `tinker://${modelId}/${kind}/${name}`
