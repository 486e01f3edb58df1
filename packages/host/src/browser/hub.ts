/** The hub, whose cache is on disk, in place of `../hub.ts`. */
import type { HubFailure, HubRepo } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type * as node from '../hub.js'

const failure = ({ name }: HubRepo): TE.TaskEither<HubFailure, never> =>
  TE.left({
    _tag: 'HubFailure',
    kind: 'unreachable',
    repo: name,
    reason: 'the hub cannot be used in a browser: put the files into a folder of liveFiles',
  })

export const liveHub: typeof node.liveHub = () => ({ list: failure, download: failure })
