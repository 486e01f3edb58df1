/** Weights of a model that all users in this process share. */
import type { HostArray } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { Params } from '../transformer/params.js'
import { makeParams, type Pretrained } from './pretrained.js'

/** The tensors made of each record of arrays. They may have been freed since. */
const made = new WeakMap<ReadonlyMap<string, HostArray>, Params>()

/**
 * Returns the weights of a model as tensors that all callers share, so policy, reference and
 * learner hold one copy.
 *
 * Effects  frees the tensors when the last owner releases them. A later call makes them again.
 */
export const sharedParams = ({ arrays }: Pick<Pretrained, 'arrays'>): Owned<Params> => {
  const present = made.get(arrays)
  if (present !== undefined && Object.values(present).every((tensor) => !tensor.isDisposed)) return own(present)
  const owned = own(scope(() => makeParams(arrays)))
  made.set(arrays, owned.value)
  return owned
}
