/** The pages of the site in learning order. Every page of the guide is in one section. */

/** A section of the sidebar, with the paths of its pages in the repository. */
export interface Section {
  readonly title: string
  readonly sources: readonly string[]
}

const guide = (...names: readonly string[]): readonly string[] => names.map((name) => `docs/guide/${name}.md`)

export const SECTIONS: readonly Section[] = [
  {
    title: 'Start',
    sources: [
      'README.md',
      ...guide('26-installing', '5-training', '24-recipes', '6-runs', '35-viewing'),
      'docs/comingFrom.md',
      'docs/troubleshooting.md',
    ],
  },
  {
    title: 'Tasks, rewards and tools',
    sources: guide(
      ...['3-environments', '20-rewards', '21-transforms', '9-datasets-and-trajectories', '17-tools', '18-sandbox'],
      ...['19-remote-tools', '30-resources', '22-multi-agent', '36-served-environments'],
    ),
  },
  { title: 'Agents', sources: guide('31-your-own-agent', '29-agents') },
  { title: 'Games', sources: guide('28-games', '32-arena', '33-training-in-games') },
  {
    title: 'Models and training',
    sources: guide(
      ...['4-models', '12-adapters-and-memory', '2-history-and-templates', '7-tokenizers', '23-learners'],
      ...['27-replay-buffers', '14-async', '16-workers', '38-browser', '15-tracking', '25-benchmarks'],
    ),
  },
  { title: 'Servers', sources: guide('11-serving', '13-servers', '34-tinker', '37-launching-jobs') },
  {
    title: 'Foundations',
    sources: [
      ...guide('1-tensordict', '8-files', '10-testing'),
      ...['objectives', 'algorithms', 'laws', 'parity', 'glossary'].map((name) => `docs/${name}.md`),
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
