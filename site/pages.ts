/** The pages of the site in learning order. Every page of the guide is in one section. */

/** A section of the sidebar, with the paths of its pages in the repository. */
export interface Section {
  readonly title: string
  readonly sources: readonly string[]
}

const guide = (...names: readonly string[]): readonly string[] => names.map((name) => `docs/guide/${name}.md`)

/** Pages of the guide whose programs run in a browser: without files, servers or other packages. */
export const RUNNABLE: readonly string[] = [
  ...['04-recipes', '07-environments', '09-transforms', '15-multi-agent', '18-games', '20-training-in-games'],
  ...['23-history-and-templates', '25-learners', '26-replay-buffers', '36-tensordict'],
]

export const SECTIONS: readonly Section[] = [
  {
    title: 'Start',
    sources: [
      'README.md',
      ...guide('01-installing', '02-training', '03-your-own-agent', '04-recipes', '05-runs', '06-viewing'),
      'docs/comingFrom.md',
      'docs/viewers.md',
      'docs/troubleshooting.md',
    ],
  },
  {
    title: 'Tasks, rewards and tools',
    sources: guide(
      ...['07-environments', '08-rewards', '09-transforms', '10-datasets-and-trajectories', '11-tools', '12-sandbox'],
      ...['13-remote-tools', '14-resources', '15-multi-agent', '16-served-environments'],
    ),
  },
  { title: 'Agents', sources: guide('17-agents') },
  { title: 'Games', sources: guide('18-games', '19-arena', '20-training-in-games') },
  {
    title: 'Models and training',
    sources: guide(
      ...['21-models', '22-adapters-and-memory', '23-history-and-templates', '24-tokenizers', '25-learners'],
      ...[
        '26-replay-buffers',
        '27-async',
        '28-workers',
        '29-browser',
        '39-accelerators',
        '40-your-own-loss',
        '30-tracking',
        '31-benchmarks',
      ],
    ),
  },
  { title: 'Servers', sources: guide('32-serving', '33-servers', '34-tinker', '35-launching-jobs') },
  {
    title: 'Foundations',
    sources: [
      ...guide('36-tensordict', '37-files', '38-testing'),
      ...['objectives', 'demonstration', 'algorithms', 'laws', 'parity', 'limits', 'glossary'].map(
        (name) => `docs/${name}.md`,
      ),
    ],
  },
  {
    title: 'Benchmarks',
    sources: ['benchmarks', 'benchmarksModels', 'benchmarksCollect', 'benchmarksTensorDict', 'scale'].map(
      (name) => `docs/${name}.md`,
    ),
  },
  { title: 'Project', sources: ['docs/decisions/README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'] },
]
