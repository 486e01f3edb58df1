/** The pushes that an updater keeps track of: weights in use, their base, and obsolete ones. */
import type { Changing } from '@tandem-rl/base'
import type { AdapterWeights } from '@tandem-rl/text'
import type { Task } from 'fp-ts/lib/Task.js'
import type { EngineClient, ServingWeights } from '../../data/engineClient.js'
import type { Member } from './member.js'
import type { ExpectedWeights } from './serverRun.js'
import type { UpdaterSettings } from './settings.js'
import type { BaseWeights } from './transaction.js'

/** Weights that all servers loaded. */
export interface Committed {
  readonly serving: ServingWeights
  readonly expected: ExpectedWeights
  /** `null` for whole weights. */
  readonly adapter: AdapterWeights | null
}

/** Whole weights that all servers loaded. */
interface CommittedBase extends BaseWeights {
  readonly remove: Task<void>
}

interface PushesState<W> {
  readonly settings: UpdaterSettings<W>
  readonly members: readonly Member[]
  /** Names of adapters that were sent to any server. */
  readonly names: Set<string>
  /** The weights that sample new requests. */
  readonly current: Committed
  /** The base weights of `current`. */
  readonly base: CommittedBase
  /** Adapters that running requests may use, newest first. */
  readonly adapters: readonly string[]
  /** Base weights of earlier pushes whose folders still exist, newest first. */
  readonly bases: readonly CommittedBase[]
}

/** The mutable state that the pushes of an updater share. */
export type Pushes<W> = Changing<PushesState<W>>

/**
 * Returns the state before the first push, with the weights that the servers are declared to have.
 */
export const noPushes = <W>(settings: UpdaterSettings<W>, members: readonly Member[]): Pushes<W> => {
  const { version, source } = settings.start
  const expected: ExpectedWeights = { version, adapter: null, probes: null }
  return {
    settings,
    members,
    names: new Set(),
    adapters: [],
    bases: [],
    current: { serving: { version, adapter: null, cacheSalt: '' }, expected, adapter: null },
    base: { expected, source, remove: async () => {} },
  }
}

/**
 * Returns the member of a client. Throws RangeError for a client that does not belong to the
 * updater.
 */
export const memberOf = <W>({ members }: Pushes<W>, client: EngineClient): Member => {
  const member = members.find((other) => other.client === client)
  if (member === undefined) throw new RangeError(`engineUpdater: ${client.name} is not one of its clients`)
  return member
}

/**
 * Records base weights that all servers now have. Returns the obsolete ones, whose folders may be
 * removed. Adapters for other base weights become obsolete too.
 */
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

/**
 * Records an adapter that all servers now have. Adapters outside the window are marked for
 * unloading.
 */
export const commitAdapter = <W>(pushes: Pushes<W>, next: Committed, name: string): void => {
  const { maxStaleness } = pushes.settings.sync
  const adapters = [name, ...pushes.adapters]
  pushes.current = next
  pushes.adapters = adapters.slice(0, maxStaleness + 1)
  for (const { leftovers } of pushes.members) for (const old of adapters.slice(maxStaleness + 1)) leftovers.add(old)
}
