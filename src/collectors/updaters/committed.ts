/** What an updater remembers of its pushes: the weights in use, those under them, and those that may go. */

import type { Task } from 'fp-ts/lib/Task.js'
import type { Changing } from '../../core/changing.js'
import type { EngineClient, ServingWeights } from '../../data/engineClient.js'
import type { AdapterWeights } from '../../data/generation.js'
import type { Member } from './member.js'
import type { ExpectedWeights } from './serverRun.js'
import type { UpdaterSettings } from './settings.js'
import type { BaseWeights } from './transaction.js'

/** Weights that all servers took. */
export interface Committed {
  readonly serving: ServingWeights
  readonly expected: ExpectedWeights
  /** Null for whole weights. */
  readonly adapter: AdapterWeights | null
}

/** Whole weights that all servers took. */
interface CommittedBase extends BaseWeights {
  readonly remove: Task<void>
}

interface PushesState<W> {
  readonly settings: UpdaterSettings<W>
  readonly members: readonly Member[]
  /** Names of adapters that were sent to some server. */
  readonly names: Set<string>
  /** What new requests are sampled with. */
  readonly current: Committed
  /** The base weights under it. */
  readonly base: CommittedBase
  /** Adapters that running requests may use, newest first. */
  readonly adapters: readonly string[]
  /** Base weights of earlier pushes whose folders are there, newest first. */
  readonly bases: readonly CommittedBase[]
}

/** A mutable value: what the pushes of an updater share. */
export type Pushes<W> = Changing<PushesState<W>>

/** Before the first push: what the servers are said to have. */
export const noPushes = <W>(settings: UpdaterSettings<W>, members: readonly Member[]): Pushes<W> => {
  const { version, source } = settings.start
  const expected: ExpectedWeights = { version, adapter: null, probes: null }
  return {
    ...{ settings, members, names: new Set(), adapters: [], bases: [] },
    current: { serving: { version, adapter: null, cacheSalt: '' }, expected, adapter: null },
    base: { expected, source, remove: async () => {} },
  }
}

/** The member of a client. Errors: throws RangeError for a client that the updater was not given. */
export const memberOf = <W>({ members }: Pushes<W>, client: EngineClient): Member => {
  const member = members.find((other) => other.client === client)
  if (member === undefined) throw new RangeError(`engineUpdater: ${client.name} is none of its clients`)
  return member
}

/** Base weights that all servers have now, and the folders that nobody can need any more. Older adapters are for other base weights. */
export const commitBase = <W>(pushes: Pushes<W>, next: Committed, base: CommittedBase): readonly CommittedBase[] => {
  const { maxStaleness } = pushes.settings.sync
  const bases = [base, ...pushes.bases]
  pushes.current = next
  pushes.base = base
  pushes.bases = bases.slice(0, maxStaleness + 1)
  for (const { leftovers } of pushes.members) for (const name of pushes.adapters) leftovers.add(name)
  pushes.adapters = []
  return bases.slice(maxStaleness + 1)
}

/** An adapter that all servers have now. Those outside of the window are to be unloaded. */
export const commitAdapter = <W>(pushes: Pushes<W>, next: Committed, name: string): void => {
  const { maxStaleness } = pushes.settings.sync
  const adapters = [name, ...pushes.adapters]
  pushes.current = next
  pushes.adapters = adapters.slice(0, maxStaleness + 1)
  for (const { leftovers } of pushes.members) for (const old of adapters.slice(maxStaleness + 1)) leftovers.add(old)
}
