/** An updater of scripted servers, whose weights are the number of their version. */
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type EngineUpdater, engineUpdater } from '../../src/collectors/updaters/engineUpdater.js'
import type { ServerStatus } from '../../src/collectors/updaters/member.js'
import type { SyncSettings, VerifyOptions, WeightForms } from '../../src/collectors/updaters/settings.js'
import {
  type ScriptedClient,
  type ScriptedClientOptions,
  scriptedClient,
  scriptedLogProbs,
  scriptedWeights,
  turnWorld,
} from './scriptedClient.js'

/** Contents as weights; `removed` counts the sources that were taken away. */
export const scriptedForms = (
  how: 'adapter' | 'full',
): { readonly forms: WeightForms<number>; readonly removed: number[] } => {
  const removed: number[] = []
  return {
    removed,
    forms: {
      vocabularySize: 64,
      hasAdapter: () => (how === 'adapter' ? 'yes' : 'no'),
      adapter: (content) => ({ rank: 1, alpha: 1, tensors: scriptedWeights(content) }),
      full: (content, version) =>
        TE.right({
          source: { _tag: 'Arrays', arrays: scriptedWeights(content) },
          remove: async () => void removed.push(version),
        }),
      score: (content, rows) => rows.map((row) => scriptedLogProbs(content, row)),
    },
  }
}

/** Pushes so far, and who did them. */
export interface Pushed {
  readonly updater: EngineUpdater<number>
  readonly pushed: readonly { readonly version: number; readonly ok: boolean }[]
}

export interface SetupOptions extends Omit<ScriptedClientOptions, 'name' | 'faults'> {
  readonly count?: number
  readonly how?: 'adapter' | 'full'
  readonly sync?: Partial<SyncSettings>
  readonly verify?: VerifyOptions
}

/** Scripted servers of version 0, and an updater for them whose time is turns of the event loop. */
export const scriptedSetup = (options: SetupOptions = {}) => {
  const {
    count = 1,
    how = 'adapter',
    sync,
    verify = {
      probes: [
        [1, 2, 3],
        [4, 5],
      ],
    },
    ...rest
  } = options
  const servers: readonly ScriptedClient[] = Array.from({ length: count }, (_, i) =>
    scriptedClient({ ...rest, name: `server ${i}` }),
  )
  const { forms, removed } = scriptedForms(how)
  const statuses: ServerStatus[] = []
  const pushed: { version: number; ok: boolean }[] = []
  let ids = 0
  const updater = engineUpdater({
    clients: servers.map(({ client }) => client),
    weights: forms,
    how,
    start: { version: 0, source: { _tag: 'Arrays', arrays: scriptedWeights(0) } },
    verify,
    sync: { pushMs: 120, undoMs: 120, callMs: 30, ...sync },
    onStatus: (status) => statuses.push(status),
    world: { ...turnWorld(), ids: { fresh: () => `id${ids++}` } },
  })
  /** Pushes weights that are the number of their version. */
  const push = async (version: number, signal?: AbortSignal) => {
    const result = await updater.push(version, version, signal ? { signal } : {})()
    pushed.push({ version, ok: E.isRight(result) })
    return result
  }
  return { servers, updater, push, statuses, removed, pushed: (): Pushed => ({ updater, pushed }) }
}
