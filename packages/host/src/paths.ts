/** Relations of paths. */
import { isAbsolute, relative, sep } from 'node:path'

/** Returns `true` if a path is a folder or below it. Both are absolute. */
export const isBelow = (folder: string, path: string): boolean => {
  const way = relative(folder, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}
