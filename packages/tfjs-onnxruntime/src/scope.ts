/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Ownership of tensors, for those who keep and free them: it decides when a tensor is freed. No
 * other file calls `tidy`, `keep` or `dispose`.
 *
 * A value that holds tensors (a TensorDict, a record of parameters) owns nothing. `scope(f)` frees
 * the tensors that `f` created and did not return. `own(value)` keeps the tensors of a value until
 * it is released, across any number of awaits and scopes. A tensor may be owned several times, by
 * values that share it; it is freed when the last of them is released.
 */
import * as tf from '@tensorflow/tfjs-core'
import { recordOwned } from './ownership.js'

/** The symbol of a method that lists the tensors of a value that is not a plain record. */
export const TENSORS: unique symbol = Symbol.for('tandem.tensors')

/** A value whose tensors `tensorsOf` finds: see `TENSORS`. */
interface HoldsTensors {
  readonly [TENSORS]: () => Iterable<unknown>
}

const holdsTensors = (value: object): value is HoldsTensors => TENSORS in value

/**
 * Returns every tensor reachable from `value` through records, arrays, maps and values with a
 * `TENSORS` method, each once. Typed arrays, strings and other leaves are not searched.
 */
export const tensorsOf = (value: unknown): readonly tf.Tensor[] => {
  const found = new Set<tf.Tensor>()
  const seen = new Set<object>()
  const visit = (item: unknown): void => {
    if (typeof item !== 'object' || item === null || ArrayBuffer.isView(item)) return
    if (item instanceof tf.Tensor) {
      found.add(item)
      return
    }
    if (seen.has(item)) return
    seen.add(item)
    if (holdsTensors(item)) {
      for (const part of item[TENSORS]()) visit(part)
      return
    }
    if (Array.isArray(item) || item instanceof Set) {
      for (const part of item) visit(part)
      return
    }
    if (item instanceof Map) {
      for (const part of item.values()) visit(part)
      return
    }
    const prototype: unknown = Object.getPrototypeOf(item)
    if (prototype === Object.prototype || prototype === null) for (const part of Object.values(item)) visit(part)
  }
  visit(value)
  return [...found]
}

type NotPromise<T> = T extends PromiseLike<unknown> ? never : T

/**
 * Runs `f` and frees every tensor that it created, except those in its result. The result may be
 * any value that `tensorsOf` can search. If `f` throws, all its tensors are freed.
 *
 * Errors   throws TypeError if `f` returns a promise: tensors created after its first `await` would
 *          escape the scope.
 *
 * @example
 * scope(() => tf.add(tf.scalar(1), tf.scalar(2))).dataSync() // [3]
 */
export const scope = <T>(f: () => NotPromise<T> & T): T => {
  let result: { readonly value: T } | undefined
  tf.tidy(() => {
    const value = f()
    if (value instanceof Promise) throw new TypeError('scope: the function returned a promise; scopes are synchronous')
    result = { value }
    return [...tensorsOf(value)]
  })
  return result!.value
}

const owners = new WeakMap<tf.Tensor, number>()
let ownedNow = 0

/**
 * Returns the number of currently owned values: zero if nothing leaks. In debug mode, `liveOwned`
 * lists their locations.
 */
export const ownedCount = (): number => ownedNow

/** Returns whether releasing one owner of a tensor would not free it. */
export const hasOtherOwner = (tensor: tf.Tensor): boolean => (owners.get(tensor) ?? 0) > 1

/** A value whose tensors stay alive until `release`, or until the end of a `using` declaration. */
export interface Owned<T> extends Disposable {
  /** Throws if the value has been released. */
  readonly value: T
  /** Frees the tensors that no other owner has. Throws if called twice. */
  readonly release: () => void
}

/**
 * Takes the tensors of `value` into ownership, so that no scope frees them. They are the same
 * tensors, so gradients and sharing are not affected.
 *
 * Errors   throws if one of them has been freed already.
 * Effects  the tensors live until every owner has released them. In debug mode (`debugOwnership`)
 *          the caller is recorded.
 */
export const own = <T>(value: T): Owned<T> => {
  const tensors = tensorsOf(value)
  for (const tensor of tensors) {
    if (tensor.isDisposed) throw new Error(`own: a tensor of shape [${tensor.shape.join()}] has been freed already`)
  }
  for (const tensor of tensors) {
    owners.set(tensor, (owners.get(tensor) ?? 0) + 1)
    tf.keep(tensor)
  }
  ownedNow++
  let released = false
  const release = (): void => {
    if (released) throw new Error(`own: released twice${record.origin}`)
    released = true
    ownedNow--
    record.forget()
    for (const tensor of tensors) {
      const left = owners.get(tensor)! - 1
      if (left > 0) owners.set(tensor, left)
      else {
        owners.delete(tensor)
        tensor.dispose()
      }
    }
  }
  const record = recordOwned(release, tensors.length)
  return {
    get value() {
      if (released) throw new Error(`own: the value was used after its release${record.origin}`)
      return value
    },
    release,
    [Symbol.dispose]: release,
  }
}

/**
 * Frees the tensors of `value` that have no owner and that `kept` does not contain: for a step
 * between two values that share most of their tensors, outside of any scope.
 */
export const discard = (value: unknown, kept: unknown = []): void => {
  const keep = new Set(tensorsOf(kept))
  for (const tensor of tensorsOf(value)) if (!keep.has(tensor) && !owners.has(tensor)) tensor.dispose()
}

/** Returns the number of live tensors, and their bytes. */
export const liveTensors = (): { readonly count: number; readonly bytes: number } => {
  const { numTensors, numBytes } = tf.memory()
  return { count: numTensors, bytes: numBytes }
}
