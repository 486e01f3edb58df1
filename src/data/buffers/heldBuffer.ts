import { cell } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { TensorDict } from '../tensorDict/tensorDict.js'
import type { ReplayBuffer, ReplayBufferState, Sampled } from './replayBuffer.js'
import type { DrawRequest } from './sampler.js'

/** A replay buffer that holds its state. */
export interface HeldBuffer<S, P> {
  /**
   * Writes the rows of a batch. Returns the slot of each, or undefined for a row that was not kept.
   */
  readonly extend: (batch: TensorDict<S>) => readonly (number | undefined)[]
  /** Draws rows, which the caller releases. */
  readonly sample: (request: DrawRequest) => Owned<Sampled<S>>
  readonly state: () => ReplayBufferState<S, P>
  /** Frees all rows. */
  readonly release: () => void
}

/**
 * Holds the state of a replay buffer between calls, as a collector's `replayBuffer` needs it.
 *
 * Errors   those of the buffer.
 * Effects  owns the tensors of the rows until `release`.
 *
 * @example
 * const held = holdBuffer(ReplayBuffer({ capacity: 100, sampler: RandomSampler() }))
 * const written = held.state().written
 * held.release()
 * written // 0
 */
export const holdBuffer = <S, P>(
  buffer: ReplayBuffer<P>,
  start: ReplayBufferState<S, P> = buffer.initial<S>(),
): HeldBuffer<S, P> => {
  const held = cell<Owned<ReplayBufferState<S, P>>>(own(start))
  const hold = (next: ReplayBufferState<S, P>): void => {
    const before = held.get()
    held.set(own(next))
    before.release()
  }
  return {
    extend: (batch) => {
      const [slots, next] = scope(() => buffer.extend(held.get().value, batch))
      hold(next)
      return slots
    },
    sample: (request) => {
      const [sampled, next] = scope(() => buffer.sample(held.get().value, request))
      const drawn = own(sampled)
      hold(next)
      return drawn
    },
    state: () => held.get().value,
    release: () => held.get().release(),
  }
}
