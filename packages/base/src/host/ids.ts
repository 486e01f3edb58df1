/** Names that are unique in the world. */
import { randomUUID } from 'node:crypto'
import type { Ids } from '../capabilities.js'

/** 32 random hexadecimal digits. */
export const liveIds: Ids = { fresh: () => randomUUID().replaceAll('-', '') }
