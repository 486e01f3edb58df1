/** Names in LaTeX and typographic signs, with their meaning in an answer. */

const words = (text: string): readonly string[] => text.split(' ')

/** Functions of one argument, and `log`, which may have its base as an index. */
export const FUNCTIONS: ReadonlySet<string> = new Set(
  words('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp min max gcd lcm'),
)

/** Commands whose argument is words. */
export const TEXT_COMMANDS: ReadonlySet<string> = new Set(
  words(
    'text textbf textit textrm textnormal textsf texttt textsl textup emph underline mathrm mathsf mathit mathtt mathnormal mbox operatorname',
  ),
)

/** Commands for a style of letters, which makes other variables of them, but not of numbers. */
export const STYLES: ReadonlySet<string> = new Set(words('mathbf mathbb mathcal mathfrak mathscr boldsymbol bm pmb'))

/** Commands that change only the layout of a formula. */
export const IGNORED: ReadonlySet<string> = new Set([
  ...words('left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr displaystyle textstyle limits nolimits'),
  ...words('bf it rm sf tt sl em bfseries boldmath small large Large LARGE huge Huge normalsize'),
  ...words('quad qquad boxed fbox mathstrut strut hspace vspace pounds euro EUR dollar ensuremath'),
  ...[',', ';', ':', '!', ' ', '\n', '$', '(', ')', '[', ']', '/', '-', '>'],
])

/** Words that act as signs. */
export const WORD_SIGNS: ReadonlyMap<string, string> = new Map([
  ['and', ','],
  ['or', 'or'],
  ['union', '∪'],
])

/** Letters with alternative spellings in LaTeX or in print. */
export const GREEK: ReadonlyMap<string, string> = new Map([
  ['π', 'pi'],
  ['∞', 'infinity'],
  ['infty', 'infinity'],
  ['varphi', 'phi'],
  ['varepsilon', 'epsilon'],
  ['vartheta', 'theta'],
  ['emptyset', '∅'],
  ['varnothing', '∅'],
  ['∅', '∅'],
  ['θ', 'theta'],
  ['α', 'alpha'],
  ['β', 'beta'],
  ['γ', 'gamma'],
  ['λ', 'lambda'],
  ['μ', 'mu'],
  ['σ', 'sigma'],
  ['φ', 'phi'],
  ['ω', 'omega'],
  ['ldots', '…'],
  ['dots', '…'],
  ['cdots', '…'],
  ['…', '…'],
  ['ℝ', 'mathbb(R)'],
])

const LISTS: readonly (readonly [sign: string, spellings: string])[] = [
  ['*', '\\cdot \\times \\ast × · ⋅ ∗ *'],
  ['/', '\\div \\slash ÷ ∕'],
  ['±', '\\pm ±'],
  ['∓', '\\mp ∓'],
  ['∪', '\\cup \\bigcup ∪'],
  ['∩', '\\cap \\bigcap ∩'],
  ['∖', '\\setminus \\backslash ∖'],
  ['≤', '\\le \\leq \\leqq \\leqslant ≤'],
  ['≥', '\\ge \\geq \\geqq \\geqslant ≥'],
  ['<', '\\lt'],
  ['>', '\\gt'],
  ['≠', '\\ne \\neq ≠'],
  ['∈', '\\in ∈'],
  ['≈', '\\approx \\sim \\simeq ≈'],
  ['=', '\\equiv'],
  ['%', '\\%'],
  ['°', '\\degree \\circ ° ∘ º'],
  ["'", '\\prime ′'],
  ['frac', '\\frac \\dfrac \\tfrac \\cfrac \\dfrac'],
  ['binom', '\\binom \\dbinom \\tbinom'],
  ['row', '\\\\ \\cr \\newline'],
  ['set{', '\\{ \\lbrace'],
  ['}set', '\\} \\rbrace'],
  ['⟨', '\\langle ⟨'],
  ['⟩', '\\rangle ⟩'],
  ['|', '\\lvert \\rvert \\vert \\mid'],
  ['⌊', '\\lfloor'],
  ['⌋', '\\rfloor'],
  ['⌈', '\\lceil'],
  ['⌉', '\\rceil'],
  ['!', '!'],
]

/** Signs by all of their spellings. */
export const SIGNS: ReadonlyMap<string, string> = new Map(
  LISTS.flatMap(([sign, spellings]) => words(spellings).map((spelling) => [spelling, sign] as const)),
)
