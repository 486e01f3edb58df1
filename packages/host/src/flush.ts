import { fsync } from 'node:fs'
import { promisify } from 'node:util'

/**
 * Flushes an open file or folder to the disk. Yarn's Plug'n'Play replaces `FileHandle.sync` by a
 * method that throws, so the descriptor is flushed.
 */
export const flush = ({ fd }: { readonly fd: number }): Promise<void> => promisify(fsync)(fd)
