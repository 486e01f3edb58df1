/**
 * Builds the documentation site into `dist/site`: `npm run make -- site`. The pages are those of the
 * repository, with a page for each recipe, an API reference made from the doc comments, and the
 * pages that train.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DOORS } from '../scripts/kit/doors.js'
import { buildPrograms, workerOf } from '../scripts/kit/guidePrograms.js'
import { buildTrainingPage } from '../scripts/make/page.js'
import { recipePage, sitePage, sitePath, titleOf, withRunButton } from './markdown.js'
import { RUNNABLE, SECTIONS } from './pages.js'

const SITE = import.meta.dirname
const ROOT = dirname(SITE)
const PAGES = join(SITE, '.pages')

/** Pages that the sidebar does not list: each decision. */
const decisions = readdirSync(join(ROOT, 'docs/decisions'))
  .filter((name) => name !== 'README.md')
  .map((name) => `docs/decisions/${name}`)
const sources = [...SECTIONS.flatMap((section) => section.sources), ...decisions]
const recipes = readdirSync(join(ROOT, 'recipes'))
  .filter((name) => name.endsWith('.ts'))
  .map((name) => `recipes/${name}`)

const read = (source: string): string => readFileSync(join(ROOT, source), 'utf8')

const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(PAGES, path)), { recursive: true })
  writeFileSync(join(PAGES, path), text)
}

const run = (command: string, ...args: readonly string[]): void => {
  execFileSync(process.execPath, [join(SITE, 'node_modules', command), ...args], { cwd: SITE, stdio: 'inherit' })
}

/** Writes the API reference, a page for each import path, and returns its sidebar. */
const writeApi = (): readonly { readonly text: string; readonly link: string }[] => {
  const files = [...DOORS.values()].flatMap((file) => ['--entryPoints', join(ROOT, file)])
  run('typedoc/bin/typedoc', '--options', join(SITE, 'typedoc.json'), ...files)
  const pages = [...DOORS].map(([door, file]) => ({ door, name: file.replace(/(?:\/index)?\.ts$/, '') }))
  const titled = (path: string, title: string): string =>
    readFileSync(join(PAGES, path), 'utf8').replace(/^# .*$/m, `# ${title}`)
  const list = pages.reduce(
    (text, { door, name }) => text.replace(`[${name}](`, `[${door}](`),
    titled('api/index.md', 'API'),
  )
  write('api/index.md', list)
  for (const { door, name } of pages) write(`api/${name}.md`, titled(`api/${name}.md`, door))
  return pages.map(({ door, name }) => ({ text: door, link: `/api/${name}` }))
}

const writePages = (): void => {
  const paths = new Map([...sources, ...recipes].map((source) => [source, sitePath(source)]))
  const titles = new Map(sources.map((source) => [source, titleOf(read(source))]))
  const link = (source: string): string => `/${sitePath(source).replace(/(?:index)?\.md$/, '')}`
  for (const source of sources) {
    const page = sitePage(source, read(source), { paths, titles })
    const name = RUNNABLE.find((each) => source === `docs/guide/${each}.md`)
    write(sitePath(source), name === undefined ? page : withRunButton(page, workerOf(name)))
  }
  for (const source of recipes)
    write(sitePath(source), recipePage(link(source).slice('/recipes/'.length), read(source)))
  cpSync(join(ROOT, 'docs/images'), join(PAGES, 'images'), { recursive: true })
  cpSync(join(ROOT, 'packages/view/assets/icon.svg'), join(PAGES, 'public/icon.svg'))
  const sections = SECTIONS.map(({ title, sources: each }) => ({
    text: title,
    items: each.map((source) => ({ text: titles.get(source), link: link(source) })),
  }))
  const shown = recipes.map((source) => ({ text: link(source).slice('/recipes/'.length), link: link(source) }))
  write(
    'sidebar.json',
    JSON.stringify([
      ...sections.slice(0, -1),
      { text: 'Recipes', items: shown },
      { text: 'API reference', items: writeApi() },
      ...sections.slice(-1),
    ]),
  )
}

rmSync(PAGES, { recursive: true, force: true })
writePages()
await buildTrainingPage(join(PAGES, 'public/train'))
await buildPrograms(join(PAGES, 'public/train'), RUNNABLE)
run('vitepress/bin/vitepress.js', 'build', '.')
