/** One copy of a model's weights for everyone in this process who uses them. */
import type { HostArray } from '../../data/codecs/safetensors.js'
import { type Owned, own, scope } from '../../engine/scope.js'
import type { Params } from '../transformer/params.js'
import { makeParams, type Pretrained } from './pretrained.js'

/** The tensors that were made of arrays. They may have been freed since. */
const made = new WeakMap<ReadonlyMap<string, HostArray>, Params>()

/**
 * The weights of a model as tensors, the same ones for every caller: policy, reference and learner hold one copy.
 *
 * Effects  the tensors are freed when the last owner releases them; a later call makes them again.
 */
export const sharedParams = ({ arrays }: Pick<Pretrained, 'arrays'>): Owned<Params> => {
  const present = made.get(arrays)
  if (present !== undefined && Object.values(present).every((tensor) => !tensor.isDisposed)) return own(present)
  const owned = own(scope(() => makeParams(arrays)))
  made.set(arrays, owned.value)
  return owned
}
