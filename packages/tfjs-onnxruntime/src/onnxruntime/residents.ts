/** Tensors in the memory of a GPU, which are freed with the last slot that has them. */
import type { DeviceTensor } from './library.js'
import type { StorageSlot } from './storage.js'

/** The tensors of a backend on the device. Mutable. */
export interface Residents {
  /** Counts a slot as a user of its tensor, if it has one. */
  readonly add: (slot: StorageSlot) => void
  /** Stops counting a slot that is no longer used. A tensor without slots waits for `free`. */
  readonly drop: (slot: StorageSlot) => void
  /** Frees tensors without slots. No recorded operation may need them. */
  readonly free: () => void
  /** Frees all tensors. */
  readonly release: () => void
}

const residentOf = ({ content }: StorageSlot): DeviceTensor | undefined =>
  content._tag === 'Numeric' ? content.value.resident : undefined

/** Makes an empty set. */
export const makeResidents = (): Residents => {
  const users = new Map<DeviceTensor, number>()
  let unused: DeviceTensor[] = []
  const free = (): void => {
    for (const resident of unused) resident.dispose()
    unused = []
  }
  return {
    add: (slot) => {
      const resident = residentOf(slot)
      if (resident !== undefined) users.set(resident, (users.get(resident) ?? 0) + 1)
    },
    drop: (slot) => {
      const resident = residentOf(slot)
      if (resident === undefined) return
      const others = users.get(resident)! - 1 // counted when the slot was added
      if (others > 0) users.set(resident, others)
      else {
        users.delete(resident)
        unused.push(resident)
      }
    },
    free,
    release: () => {
      unused.push(...users.keys())
      users.clear()
      free()
    },
  }
}
