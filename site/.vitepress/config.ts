/** Settings of VitePress. `site/build.ts` writes the pages and the sidebar. */
import { readFileSync } from 'node:fs'
import katex from '@vscode/markdown-it-katex'
import { defineConfig } from 'vitepress'

/** Where the site is on its server, such as `/tandem/`. */
const base = process.env.SITE_BASE ?? '/'

const sidebar = JSON.parse(readFileSync(new URL('../.pages/sidebar.json', import.meta.url), 'utf8'))

const headingsOf = (text: string): string => text.match(/^#{1,3} .*$/gm)?.join('\n\n') ?? ''

// biome-ignore lint/style/noDefaultExport: VitePress reads the default export
export default defineConfig({
  title: 'Tandem',
  description: 'Reinforcement-learning post-training of language models, in TypeScript.',
  srcDir: '.pages',
  outDir: 'dist',
  base,
  // Pages load what they show: the links of a page would load 2 MB more.
  router: { prefetchLinks: false },
  head: [['link', { rel: 'icon', href: `${base}icon.svg` }]],
  // Browsers draw MathML themselves; pictures of equations would make pages of 2 MB.
  markdown: {
    config: (markdown) => markdown.use(katex.default ?? katex, { output: 'mathml' }),
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  themeConfig: {
    search: {
      provider: 'local',
      // Of the API reference, only names are searched: their texts would make an index of 5 MB.
      options: {
        _render: (text, env, markdown) =>
          markdown.render(env.relativePath.startsWith('api/') ? headingsOf(text) : text, env),
      },
    },
    outline: [2, 3],
    sidebar,
    nav: [
      { text: 'Start', link: '/guide/installing' },
      { text: 'Recipes', link: '/recipes/wordProblems' },
      { text: 'API', link: '/api/' },
      { text: 'Changelog', link: '/changelog' },
      { text: 'Train in this browser', link: '/train/', target: '_self' },
    ],
  },
})
