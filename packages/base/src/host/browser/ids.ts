/** Names that are unique in the world, in place of `../ids.ts`. */
import type * as node from '../ids.js'

export const liveIds: typeof node.liveIds = { fresh: () => crypto.randomUUID().replaceAll('-', '') }
