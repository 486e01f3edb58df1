/**
 * Replaces sources as bundlers replace the files of `dist` for browsers: by the pairs under
 * "browser" in each package.json. Programs that bundle the sources use it; users need nothing.
 */
import { resolve } from 'node:path'
import type { Plugin } from 'esbuild'
import { PACKAGES, sourceOf } from './workspace.js'

/** The file of Node -> the file for browsers, as absolute paths of sources. */
const PAIRS = new Map(
  PACKAGES.flatMap((each) =>
    Object.entries(each.manifest.browser ?? {}).map(
      ([node, web]) => [resolve(sourceOf(each, node)), resolve(sourceOf(each, web))] as const,
    ),
  ),
)

/** The sources that a package.json lists as compiled files with side effects. */
const KEPT = new Set(
  PACKAGES.flatMap((each) => (each.manifest.sideEffects || []).map((file) => resolve(sourceOf(each, file)))),
)

/** A plugin of esbuild that replaces all files, or only those of these names. */
export const browserFiles = (names?: readonly string[]): Plugin => {
  const chosen = names?.map((name) => resolve(`${name}.ts`))
  return {
    name: 'browser files',
    setup: (builder) => {
      builder.onResolve(
        { filter: /^[./].*\.js$|^(@tandem-rl\/|tandem-rl$)/ },
        async ({ path, pluginData, ...rest }) => {
          if (pluginData === 'resolved') return undefined
          const found = await builder.resolve(path, { ...rest, pluginData: 'resolved' })
          const other = PAIRS.get(found.path)
          const isChosen = chosen === undefined || chosen.includes(found.path)
          if (other !== undefined && isChosen && !rest.importer.includes('/browser/')) return { ...found, path: other }
          return KEPT.has(found.path) ? { ...found, sideEffects: true } : undefined
        },
      )
    },
  }
}
