/** Turns pages of the repository into pages of the site. */
import { posix } from 'node:path'

/** Pages of the site by their path in the repository. Recipes are pages too. */
export type SitePaths = ReadonlyMap<string, string>

/**
 * Returns the path of a page on the site: `docs/guide/02-training.md` is `guide/training.md`,
 * `docs/laws.md` is `laws.md`, `recipes/dpo.ts` is `recipes/dpo.md`, and the README is the home page.
 */
export const sitePath = (source: string): string =>
  source === 'README.md'
    ? 'index.md'
    : source
        .replace(/^docs\//, '')
        .replace(/^guide\/\d+-/, 'guide/')
        .replace(/README\.md$/, 'index.md')
        .replace(/^(CHANGELOG|CONTRIBUTING)\.md$/, (name) => name.toLowerCase())
        .replace(/\.ts$/, '.md')

/** Returns a page's title: its first heading, without the number of a guide page. */
export const titleOf = (text: string): string => /^# (?:\d+\. )?(.+)$/m.exec(text)?.[1] ?? ''

/** Returns the target of a relative link, as a path in the repository, and its fragment. */
const resolved = (source: string, target: string): readonly [string, string] => {
  const [path = '', fragment] = target.split('#')
  const file = path === '' ? source : posix.join(posix.dirname(source), path)
  return [file, fragment === undefined ? '' : `#${fragment}`]
}

/**
 * Rewrites the links of a page. Links to pages and pictures lead to them on the site. Links to other
 * files of the repository become their text, because the site does not have those files.
 */
const withSiteLinks = (source: string, text: string, paths: SitePaths): string => {
  const from = posix.dirname(sitePath(source))
  const relative = (to: string): string => {
    const path = posix.relative(from, to)
    return path.startsWith('.') ? path : `./${path}`
  }
  return text.replaceAll(/(!?)\[([^\]]*)\]\(([^()\s]+)\)/g, (link, mark: string, label: string, target: string) => {
    if (/^(?:[a-z]+:|#)/.test(target)) return link
    const [file, fragment] = resolved(source, target)
    if (mark === '!') return `![${label}](${relative(sitePath(file))})`
    const page = paths.get(file) ?? paths.get(`${file}/README.md`)
    return page === undefined ? label : `[${label}](${relative(page)}${fragment})`
  })
}

/** Numbers of guide pages mean nothing on the site: `[page 7](...)` becomes `[Rewards](...)`. */
const withTitles = (text: string, titles: ReadonlyMap<string, string>, source: string): string =>
  text.replaceAll(/\[[Pp]age \d+\]\(([^()\s]+)\)/g, (link, target: string) => {
    const title = titles.get(resolved(source, target)[0])
    return title === undefined ? link : `[${title}](${target})`
  })

/** Applies `change` to the text outside blocks of code. */
const outsideCode = (text: string, change: (prose: string) => string): string =>
  text
    .split(/^(```[\s\S]*?^```$)/m)
    .map((part, i) => (i % 2 === 1 ? part : change(part)))
    .join('')

/** Returns the text of a page of the site. */
export const sitePage = (
  source: string,
  text: string,
  { paths, titles }: { readonly paths: SitePaths; readonly titles: ReadonlyMap<string, string> },
): string =>
  outsideCode(text.replace(/^# \d+\. /m, '# '), (prose) =>
    withSiteLinks(source, withTitles(prose, titles, source), paths),
  )

/** Adds a button that runs the programs of a page, after its first program. */
export const withRunButton = (text: string, worker: string): string =>
  text.replace(/^```ts\n[\s\S]*?^```$/m, (block) => `${block}\n\n<RunPage worker="${worker}" />`)

/** Returns the page of a recipe: its first comment as text, and its source. */
export const recipePage = (name: string, source: string): string => {
  const comment = /^\/\*\*([\s\S]*?)\*\//.exec(source)?.[1] ?? ''
  const summary = comment.replaceAll(/^\s*\* ?/gm, '').trim()
  return `# ${name}\n\n${summary}\n\n\`\`\`sh\nnpx tandem train ${name}\n\`\`\`\n\n\`\`\`ts\n${source.trimEnd()}\n\`\`\`\n`
}
