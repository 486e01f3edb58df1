import * as TE from 'fp-ts/lib/TaskEither.js'
import { dataSpec } from '../../data/spec.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { envFailure } from '../base/env.js'
import { type Transform, transform } from './transform.js'

/**
 * The version of the weights that sampled the last completion of each episode; null before the
 * first.
 */
export type VersionEntry = { readonly policyVersion: Data<number | null> }

/**
 * Carries the version that the engine stamped on an action into the state.
 *
 * Errors   `Left(EnvFailure)` if an action has no stamp: a version is never guessed.
 * Source   TorchRL `PolicyVersion`, which counts updates beside the engine and can mislabel samples
 *          around an update.
 */
export const PolicyVersion = (): Transform<null, unknown, VersionEntry> =>
  transform<null, unknown, VersionEntry>({
    name: 'PolicyVersion',
    initial: null,
    adds: { policyVersion: dataSpec<number | null>('number | null') },
    reset: (td) => {
      const [size = 0] = td.batchShape
      return TE.right([
        TensorDict({ policyVersion: data(Array.from({ length: size }, () => null)) }, td.batchShape),
        null,
      ])
    },
    step: (next, { action }) => {
      const stamp = find(action, ['policyVersion'])
      if (stamp === undefined || !('_tag' in stamp) || stamp._tag !== 'Data') {
        return TE.left(envFailure('PolicyVersion', "the action has no 'policyVersion' from the engine that sampled it"))
      }
      return TE.right([TensorDict({ policyVersion: stamp as Data<number> }, next.batchShape), null]) // a stamp is a number
    },
  })
