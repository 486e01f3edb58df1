"""Sentences in the languages of IFEval, two of each, and what langdetect says of them. Read by ifEval.py."""

SENTENCES = {
    "ar": ["يذهب الأطفال إلى المدرسة كل صباح ويتعلمون القراءة والكتابة والحساب.", "الطقس جميل اليوم ونريد أن نمشي في الحديقة."],
    "bg": ["Децата ходят на училище всяка сутрин и се учат да четат и пишат.", "Днес времето е хубаво и искаме да се разходим в парка."],
    "bn": ["শিশুরা প্রতিদিন সকালে স্কুলে যায় এবং পড়তে ও লিখতে শেখে।", "আজ আবহাওয়া সুন্দর এবং আমরা পার্কে হাঁটতে চাই।"],
    "de": ["Die Kinder gehen jeden Morgen in die Schule und lernen lesen und schreiben.", "Heute ist das Wetter schön, und wir wollen im Park spazieren gehen."],
    "en": ["The children go to school every morning and learn to read and write.", "The weather is nice today, and we want to take a walk in the park."],
    "es": ["Los niños van a la escuela cada mañana y aprenden a leer y escribir.", "Hoy hace buen tiempo y queremos pasear por el parque con nuestros amigos."],
    "fa": ["کودکان هر روز صبح به مدرسه می‌روند و خواندن و نوشتن یاد می‌گیرند.", "امروز هوا خوب است و می‌خواهیم در پارک قدم بزنیم."],
    "fi": ["Lapset menevät joka aamu kouluun ja oppivat lukemaan ja kirjoittamaan.", "Tänään on kaunis sää, ja haluamme kävellä puistossa."],
    "fr": ["Les enfants vont à l'école chaque matin et apprennent à lire et à écrire.", "Il fait beau aujourd'hui et nous voulons nous promener dans le parc."],
    "gu": ["બાળકો દરરોજ સવારે શાળાએ જાય છે અને વાંચતા લખતા શીખે છે.", "આજે હવામાન સારું છે અને અમે બગીચામાં ફરવા માંગીએ છીએ."],
    "he": ["הילדים הולכים לבית הספר בכל בוקר ולומדים לקרוא ולכתוב.", "מזג האוויר יפה היום ואנחנו רוצים לטייל בפארק."],
    "hi": ["बच्चे हर सुबह स्कूल जाते हैं और पढ़ना और लिखना सीखते हैं।", "आज मौसम अच्छा है और हम पार्क में घूमना चाहते हैं।"],
    "it": ["I bambini vanno a scuola ogni mattina e imparano a leggere e a scrivere.", "Oggi il tempo è bello e vogliamo fare una passeggiata nel parco."],
    "ja": ["子どもたちは毎朝学校へ行き、読み書きを学びます。", "今日は天気がいいので、公園を散歩したいです。"],
    "kn": ["ಮಕ್ಕಳು ಪ್ರತಿದಿನ ಬೆಳಿಗ್ಗೆ ಶಾಲೆಗೆ ಹೋಗುತ್ತಾರೆ ಮತ್ತು ಓದಲು ಬರೆಯಲು ಕಲಿಯುತ್ತಾರೆ.", "ಇಂದು ಹವಾಮಾನ ಚೆನ್ನಾಗಿದೆ ಮತ್ತು ನಾವು ಉದ್ಯಾನದಲ್ಲಿ ನಡೆಯಲು ಬಯಸುತ್ತೇವೆ."],
    "ko": ["아이들은 매일 아침 학교에 가서 읽고 쓰는 법을 배웁니다.", "오늘은 날씨가 좋아서 공원에서 산책하고 싶습니다."],
    "ml": ["കുട്ടികൾ എല്ലാ ദിവസവും രാവിലെ സ്കൂളിൽ പോയി വായിക്കാനും എഴുതാനും പഠിക്കുന്നു.", "ഇന്ന് കാലാവസ്ഥ നല്ലതാണ്, ഞങ്ങൾ പാർക്കിൽ നടക്കാൻ ആഗ്രഹിക്കുന്നു."],
    "mr": ["मुले दररोज सकाळी शाळेत जातात आणि वाचायला व लिहायला शिकतात.", "आज हवामान छान आहे आणि आम्हाला बागेत फिरायला जायचे आहे."],
    "ne": ["केटाकेटीहरू हरेक बिहान विद्यालय जान्छन् र पढ्न लेख्न सिक्छन्।", "आज मौसम राम्रो छ र हामी पार्कमा घुम्न चाहन्छौं।", "नेपाल हिमालको देश हो, जहाँ धेरै भाषा बोलिन्छन् र मानिसहरूले पर्यटकलाई स्वागत गर्छन्।"],
    "pa": ["ਬੱਚੇ ਹਰ ਸਵੇਰ ਸਕੂਲ ਜਾਂਦੇ ਹਨ ਅਤੇ ਪੜ੍ਹਨਾ ਲਿਖਣਾ ਸਿੱਖਦੇ ਹਨ।", "ਅੱਜ ਮੌਸਮ ਚੰਗਾ ਹੈ ਅਤੇ ਅਸੀਂ ਪਾਰਕ ਵਿੱਚ ਘੁੰਮਣਾ ਚਾਹੁੰਦੇ ਹਾਂ।"],
    "pl": ["Dzieci każdego ranka chodzą do szkoły i uczą się czytać i pisać.", "Dziś jest ładna pogoda i chcemy iść na spacer do parku."],
    "pt": ["As crianças vão à escola todas as manhãs e aprendem a ler e a escrever.", "Hoje o tempo está bom e queremos passear no parque com os nossos amigos."],
    "ru": ["Дети каждое утро ходят в школу и учатся читать и писать.", "Сегодня хорошая погода, и мы хотим погулять в парке."],
    "sw": ["Watoto huenda shuleni kila asubuhi na kujifunza kusoma na kuandika.", "Leo hali ya hewa ni nzuri na tunataka kutembea katika bustani.", "Kiswahili ni lugha ya watu wengi katika nchi za Afrika Mashariki, na pia hutumika kwa biashara."],
    "ta": ["குழந்தைகள் தினமும் காலையில் பள்ளிக்குச் சென்று படிக்கவும் எழுதவும் கற்றுக்கொள்கிறார்கள்.", "இன்று வானிலை நன்றாக உள்ளது, நாங்கள் பூங்காவில் நடக்க விரும்புகிறோம்."],
    "te": ["పిల్లలు ప్రతిరోజూ ఉదయం పాఠశాలకు వెళ్లి చదవడం రాయడం నేర్చుకుంటారు.", "ఈరోజు వాతావరణం బాగుంది, మేము పార్కులో నడవాలని అనుకుంటున్నాము."],
    "th": ["เด็ก ๆ ไปโรงเรียนทุกเช้าและเรียนรู้การอ่านและการเขียน", "วันนี้อากาศดีและเราอยากเดินเล่นในสวนสาธารณะ"],
    "uk": ["Діти щоранку ходять до школи і вчаться читати й писати.", "Сьогодні гарна погода, і ми хочемо прогулятися в парку."],
    "ur": ["بچے ہر صبح اسکول جاتے ہیں اور پڑھنا لکھنا سیکھتے ہیں۔", "آج موسم اچھا ہے اور ہم پارک میں ٹہلنا چاہتے ہیں۔"],
    "vi": ["Trẻ em đến trường mỗi sáng và học đọc, học viết.", "Hôm nay thời tiết đẹp và chúng tôi muốn đi dạo trong công viên."],
    # Languages that nobody asks for, which must not pass for one that is
    "nl": ["De kinderen gaan elke ochtend naar school en leren lezen en schrijven."],
    "sv": ["Barnen går till skolan varje morgon och lär sig läsa och skriva."],
    "tl": ["Ang mga bata ay pumapasok sa paaralan tuwing umaga at natututong bumasa at sumulat."],
    "tr": ["Çocuklar her sabah okula gider ve okumayı yazmayı öğrenir."],
}

# English as the two checks of case read it, and texts of which no language can be told
CASES = ["THE CHILDREN GO TO SCHOOL EVERY MORNING.", "the children go to school every morning.", "DIE KINDER GEHEN JEDEN MORGEN IN DIE SCHULE."]
UNKNOWN = ["", " \n", "12345 67.8", "!!! ??? ...", "😀 👍", "= + - *"]
