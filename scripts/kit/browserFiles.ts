/**
 * Replaces files of `src` as bundlers replace those of `dist` for browsers: by the pairs under
 * "browser" in package.json. Programs that bundle the sources use it; users need nothing.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'esbuild'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const sourceOf = (file: string): string => join(ROOT, file.replace(/^\.\/dist/, 'src').replace(/\.js$/, '.ts'))

const { browser, sideEffects } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly browser: Readonly<Record<string, string>> // cast: the package's own file
  readonly sideEffects: readonly string[]
}

const PAIRS = new Map(Object.entries(browser).map(([node, web]) => [sourceOf(node), sourceOf(web)]))

/** The sources that package.json lists as compiled files with side effects. */
const KEPT = new Set(sideEffects.map(sourceOf))

/** A plugin of esbuild that replaces all files, or only those of these names. */
export const browserFiles = (names?: readonly string[]): Plugin => {
  const chosen = names?.map((name) => join(ROOT, 'src', `${name}.ts`))
  return {
    name: 'browser files',
    setup: (builder) => {
      builder.onResolve({ filter: /^[./].*\.js$/ }, async ({ path, pluginData, ...rest }) => {
        if (pluginData === 'resolved') return undefined
        const found = await builder.resolve(path, { ...rest, pluginData: 'resolved' })
        const other = PAIRS.get(found.path)
        const isChosen = chosen === undefined || chosen.includes(found.path)
        if (other !== undefined && isChosen && !rest.importer.includes('/browser/')) return { ...found, path: other }
        return KEPT.has(found.path) ? { ...found, sideEffects: true } : undefined
      })
    },
  }
}
