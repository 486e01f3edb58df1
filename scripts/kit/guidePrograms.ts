/** Bundles the programs of the guide that run in a page, each as a worker. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { browserFiles } from './browserFiles.js'

const ROOT = join(import.meta.dirname, '../..')

/** Returns the program of a page: all its blocks of TypeScript. */
const programOf = (page: string): string =>
  [...readFileSync(join(ROOT, `docs/guide/${page}.md`), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm)]
    .map(([, code]) => code ?? '')
    .join('\n')

/** The name of a page's worker on the site. */
export const workerOf = (page: string): string => `run-${page.replace(/^\d+-/, '')}`

/** Makes each entry from a program, between the two functions of `site/run/prelude.ts`. */
const programs: Plugin = {
  name: 'programs of the guide',
  setup: (builder) => {
    builder.onResolve({ filter: /^guide:/ }, ({ path }) => ({ path: path.slice(6), namespace: 'guide' }))
    builder.onLoad({ filter: /.*/, namespace: 'guide' }, ({ path }) => ({
      contents: `import { finish, prepare } from './site/run/prelude.js'\nawait prepare()\n${programOf(path)}\nfinish()\n`,
      loader: 'ts',
      resolveDir: ROOT,
    }))
    builder.onResolve({ filter: /^node:assert(\/strict)?$/ }, () => ({ path: join(ROOT, 'site/run/assert.ts') }))
  },
}

/** Writes a worker for each page. Throws if one would import a module that browsers lack. */
export const buildPrograms = async (folder: string, pages: readonly string[]): Promise<void> => {
  const { metafile } = await build({
    ...{ bundle: true, minify: true, format: 'esm', platform: 'browser', logLevel: 'error', absWorkingDir: ROOT },
    conditions: ['tandem-source'],
    entryPoints: Object.fromEntries(pages.map((page) => [workerOf(page), `guide:${page}`])),
    ...{ outdir: folder, splitting: true, chunkNames: 'run-part-[hash]', metafile: true, target: 'es2022' },
    plugins: [programs, browserFiles()],
    external: ['node:*', 'onnxruntime-node', 'prom-client'],
  })
  const left = Object.values(metafile.outputs).flatMap(({ imports }) =>
    imports.flatMap(({ path, external }) => (external === true ? [path] : [])),
  )
  if (left.length > 0) throw new Error(`programs of the guide would import ${[...new Set(left)].join(', ')}`)
}
