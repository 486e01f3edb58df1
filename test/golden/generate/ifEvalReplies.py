"""Replies that keep and break the instructions of IFEval, and texts that are hard to cut into sentences and words. Read by ifEval.py."""

REPLIES = [
    # Edges
    "", " ", "\n\n\n", "\t \r\n", "\ufeff", "x", "*", "**", "-", ".", ",", "\"", "\"\"", "\"a\"", "***", "******", "[", "]", "[]", "<<>>", "{}",
    # Keywords and letters
    "The river runs over the stone.", "A RIVER, a Stone; a river-stone.", "Riverside stonework.", "river river river", "River. RIVER! river?",
    "the then other THE", "aaaa", "aaa aa", "Eee eee", "Zebra", "I can; they cannot.", "Café au lait", "cafés", "STRASSE und Straße", "\u212a", "ſ", "naïve café",
    "zzz\nthe river\nstone", "* the river *", "_the_ river_stone",
    # Sentences
    "One. Two. Three.", "One! Two? Three... Four.", "Dr. Smith went to Washington. He came at 5 p.m. on Monday.", "It is 3.5 m. Long", "e.g. this. i.e. that.",
    "1. First\n2. Second\n3. Third", "No stop here", "(A sentence.) Another one.", "\"Quoted.\" He said so. “Curly.” Then", "Wait . . . what? Yes.", "U.S. troops left. The U.S. The end.",
    "Hello!!! What?!?! Fine.", "A. B. C. Deer", "J. Bach wrote it. I. Newton did not.", "Line one.\nLine two.\n\nLine three.", "日本語です。二つ目。", "Ends with etc. And more.",
    # Paragraphs
    "One\n***\nTwo", "***\nOne\n***\nTwo\n***", "One\n***\n***\nTwo", "One *** Two *** Three", "One***Two", "One\n****\nTwo", "  ***  ", "One\n\n***\n\nTwo",
    # First words of paragraphs
    "The first.\n\nStone is the second.", "\"The\" first.\n\n'Stone' is.", "The first.\n\n\n\nStone.", "the, first\n\nstone's throw", "THE\n\n STONE!", "The\n\nA stone", "''The\n\n\"'Stone",
    "A\n\nB\n\nWeekend, at last.", "A\n\nB\n\nweekends", "A\n\nB\n\n ", "\n\nThe\n\nStone", "The first.\nStone is not a paragraph.", "The\n \n\nStone",
    # Words
    "one two three four", "one-two three_four", "it's four words", "नमस्ते दुनिया", "x² ½ Ⅷ ①", "a b c d e f g h i j k l", "word " * 30, "...",
    # Placeholders
    "Dear [name], of [address].", "[a][b][c]", "[[a]]", "[a\nb]", "[a", "a]", "[ ]", "[a] [b\n[c]",
    # Postscripts
    "Bye.\nP.S. One more thing", "p.s. low", "P. S. spaced", "PS without", "P.P.S. two", "p. p. s", "P.P.S", "P.\u00a0S. odd", "Note: this", "a note", "The P.S.4",
    # Bullets
    "* One\n* Two", "- One\n- Two\n- Three", "* One\n- Two", "** Bold\n* One", "*Italic* text", " * One\n\t* Two", "*\n* One", "*\nOne", "\n\n* One", "* One\n\n\n* Two\n", "--- \n- One", "-", "*a\n*b\n*c",
    "* One\r\n* Two", "*\n*\n*\n", "*\n\n*\n*x", "1. * One", "•One", "\u00a0* One", "\x1c* One",
    # Constrained responses
    "My answer is yes.", "So: My answer is no. Really.", "my answer is yes.", "My answer is maybe", "**My answer is maybe.**", "My answer\nis no.",
    # Highlights
    "*one* and *two*", "**one** and **two**", "***one***", "* one *", "* *", "** **", "*one\ntwo*", "*one*two*three*", "**one*", "*one**", "****", "*a* **b** *c*",
    # Sections
    "Section 1\na\nSection 2\nb", "Section1 a Section2 b", "SECTION 1\na", "Section one", "section 1 section 2", "Day 1: a\nDay 2: b\nDay 3: c", "Section 1Section 2", "Section ١ Section ٢", "Section\n1 Section\u00a02",
    "Section  1 Section  2", "Sections 1 and 2",
    # JSON
    "{\"a\": [1, 2.5, null, true]}", "```json\n{\"a\": 1}\n```", "```JSON\n[]```", "```\n\"text\"\n```", "```Json 1 ```", "``` {} ``` x", "{'a': 1}", "{\"a\": 1,}", "[1, 2", "123", "-0.5e3", "01", "true", "True", "null", "\"a\nb\"",
    "\"\\ud800\"", "Here: {\"a\": 1}", "{\"a\": 1} // done", "first\n{\"a\": 1}", "{\"a\": 1}\nlast", "first\n{\"a\": 1}\nlast", "```json\n```json\n1\n```\n```", "\u00a0{}\u00a0",
    # Titles
    "<<A title>>\ntext", "<< >>", "<<a", "a>>", "<<<a>>>", "<<\na>>", "<<a>> <<b>>", "<<>>>", "<<<>>", "<< > >>", "text <<t>> text", "<a>", "<<<<>>>>",
    # Two responses
    "One\n******\nTwo", "One******One", "******\nOne\n******\nTwo\n******", "One******Two******Three", "One************Two", "One ****** ", "One*****Two", "One*******Two", " ******One******Two",
    # Repeating the prompt
    "Write about the river. Here it is.", "write about the RIVER.\nText", " \n Write about the river.", "Write about the river", "I write about the river.", "The", "Intro\nWrite about the river. Text",
    # Ends
    "Good. Is there anything else?", "Good. IS THERE ANYTHING ELSE? ", "\"Is there anything else?\"", "Is there anything else? Yes", "Is there anything else?\nBye", "*Is there anything else?*", "a stone.", "a stone.\"\"\"", "a \"quoted\"", "a stone. \"",
    # Quotation
    "\"All of it.\"", " \"All of it.\" \n", "\"Open", "Closed\"", "“All of it.”", "'All of it.'", "\"a\"\nb", "a\n\"b\"", "*\"a\"*", "\"a\" and \"b\"",
    # Capitals
    "NASA and ESA", "THE END", "I am", "A B C D", "U.S.A. and UK", "CANNOT WON'T", "X-RAY's", "Abc ABC1 1ABC 123", "É È", "ǅ", "ßS", "ⅷ Ⅷ", "GONNA", "HELLO, WORLD! \"QUOTED\" (PAREN)", "NASA/ESA", "A,B", "A, B", "#TAG @NAME", "*BOLD*",
    # Commas
    "No comma here.", "A comma, here.", "１，２", "a、b", "1,000",
    # Loose readings
    "Sure, here it is:\nThe river. The stone.", "The river. The stone.\nHope it helps, friend!", "Sure, ok\nriver stone\nbye, now", "**The** *river*", "\n\nThe\n\n", "Sure:\n\"All of it.\"", "a\nb", "*\n*",
]

TEXTS = [
    "Mr. and Mrs. Brown live on St. John St. They moved in Jan. 1999. Prof. Green did not.",
    "He works at Acme Inc. The company is old. She works at Beta Corp. and likes it.",
    "The price rose 3.5 percent to $1.25 a share. Sales fell. See fig. 3. Page no. 4 is missing.",
    "We met at 5 p.m. Yesterday was cold. At 6 a.m. the sun rose. It was 7 a.m. However, nobody came.",
    "What a day... We went home. What a day ... we said. Then... Nothing. \"Really...?\" he asked.",
    "Items: 1. apples 2. Pears 3. Plums. Version 2.0. is out. In 1999. Then 2000. they came",
    "She said \"Go.\" He went. (He did not want to.) [Really?] {Yes!} 'No.' ''Maybe.'' --- Then -- nothing.--End.",
    "A. Smith and B. Jones met J. R. R. Tolkien. I. It was him. Vitamin C. Next. Plan B. Smith agreed. Plan B. Levine did.",
    "Visit www.example.com. Or mail a.b@c.org. The file is a.txt. The call f(x). Done!Now?Yes",
    "Ph.D. students at the U.N. meet. The U.K. and the U.S.S.R. Both signed. J.P. Morgan vs. the rest. e.g. This. etc. That.",
    "Wait!! No?! Yes?? Ok!.. Fine.! Done.? Then.... End", "\"Stop!\" she cried. 'Why?' he asked. “Because.” ‘Oh.’ «Ah.»", "...", ". . .", "? ! .", "a.b.c. d.", "-1. 2,5. -.5. 1-2. Then",
    "mid-sept. The well-known co. Then x-corp. he", "Äpfel. Öl. été. Élan. ñandú. Ñu. ß. ǅ. _. ①. Ⅷ. x", "First line\nsecond line. Third\n\nFourth. fifth\n \nSixth", "Tabs.\tHere.\u00a0There.\u2003Done.\u3000End.\x1cLast",
    "I can't, won't, don't; he's, they'll, we've, I'm, you're, she'd. O'Neil's 'tis 'twas 'em 'cause ''quoted'' d'ye more'n",
    "cannot Cannot CANNOT gonna GOTTA gimme lemme wanna go. WANNA. wannabe", "$3.88 50% #1 a&b @you x;y a:b 3:4 3,4 a,b x, y: z; ... .. --- -- - / \\ | ~ ^ * _ = + < > { } [ ] ( )",
    "`code` ``quoted'' \"x\" (\"y\") [\"z\"] <\"w\"> «a» “b” ‘c’ „d‟ 'e' '' ' \" ` a'b'c '1' 'S 'x y' z'", "End.) End.\" End.' End.] End.} End.> End.» End.” End.’ End.",
    "Sales rose. Sales of 5. The co. Sales fell. Mr. Sales left. vs. It was. vs. he", "\"U.S. Yes.\" \"U.S.\" Yes. (U.S.) No. U.S., and U.S.; or U.S.: so U.S.? Yes U.S.! No", "a.m.- p.m.-b co.'s Inc.) Corp.\" ltd.] x", "One.Two. Three.four five.Six.", "!" * 50, "a. " * 30, ". " * 30, "A.B" * 20, "(" * 10 + "a." + ")" * 10 + " b",
]
